#include "textflag.h"

// func timesWide(out, v, x *float32, rows, columns int)
// Four rows at a time, eight columns a step: x is read once for the four of them.
//   AX BX CX DX  the four rows        SI  x
//   R8  rows left   R9  columns       R10 columns left   R11 bytes of a row
TEXT ·timesWide(SB), NOSPLIT, $0-40
	MOVQ out+0(FP), DI
	MOVQ v+8(FP), AX
	MOVQ rows+24(FP), R8
	MOVQ columns+32(FP), R9
	MOVQ R9, R11
	SHLQ $2, R11

four:
	MOVQ   x+16(FP), SI
	LEAQ   (AX)(R11*1), BX
	LEAQ   (AX)(R11*2), CX
	LEAQ   (BX)(R11*2), DX
	MOVQ   R9, R10
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3

eight:
	VMOVUPS     (SI), Y4
	VFMADD231PS (AX), Y4, Y0
	VFMADD231PS (BX), Y4, Y1
	VFMADD231PS (CX), Y4, Y2
	VFMADD231PS (DX), Y4, Y3
	ADDQ        $32, SI
	ADDQ        $32, AX
	ADDQ        $32, BX
	ADDQ        $32, CX
	ADDQ        $32, DX
	SUBQ        $8, R10
	JGT         eight

	// Pairs, pairs of pairs, then the two halves: one sum a row.
	VHADDPS      Y1, Y0, Y0
	VHADDPS      Y3, Y2, Y2
	VHADDPS      Y2, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS       X1, X0, X0
	VMOVUPS      X0, (DI)
	ADDQ         $16, DI
	MOVQ         DX, AX
	SUBQ         $4, R8
	JGT          four
	VZEROUPPER
	RET
