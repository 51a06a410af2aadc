#include "textflag.h"

// func dotWide(a, b *float32, n int) float32
// Two sums of eight lanes; 16 products a round, then one round of 8 if it is left.
TEXT ·dotWide(SB), NOSPLIT, $0-28
	MOVQ   a+0(FP), AX
	MOVQ   b+8(FP), BX
	MOVQ   n+16(FP), CX
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	SUBQ   $16, CX
	JLT    rest

round:
	VMOVUPS     (AX), Y2
	VMOVUPS     32(AX), Y3
	VFMADD231PS (BX), Y2, Y0
	VFMADD231PS 32(BX), Y3, Y1
	ADDQ        $64, AX
	ADDQ        $64, BX
	SUBQ        $16, CX
	JGE         round

rest:
	ADDQ        $16, CX
	CMPQ        CX, $8
	JLT         sum
	VMOVUPS     (AX), Y2
	VFMADD231PS (BX), Y2, Y0

sum:
	VADDPS       Y1, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VHADDPS      X0, X0, X0
	VHADDPS      X0, X0, X0
	VZEROUPPER
	MOVSS        X0, ret+24(FP)
	RET
