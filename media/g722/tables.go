package g722

// The tables of section 6 of the Recommendation.

// thresholds are the decision levels of the lower band's quantizer (Q6), times its
// scale.
var thresholds = [30]int32{
	0, 35, 72, 110, 150, 190, 233, 276, 323, 370, 422, 473, 530, 587, 650, 714,
	786, 858, 940, 1023, 1121, 1219, 1339, 1458, 1612, 1765, 1980, 2195, 2557, 2919,
}

// coarse are the lower band's output levels by its four upper bits (QM4): both
// sides follow these.
var coarse = [16]int32{
	0, -20456, -12896, -8968, -6288, -4240, -2584, -1200,
	20456, 12896, 8968, 6288, 4240, 2584, 1200, 0,
}

// fine are the output levels by all six bits (QM6): these are heard. The first
// four codes do not occur.
var fine = [64]int32{
	-136, -136, -136, -136, -24808, -21904, -19008, -16704,
	-14984, -13512, -12280, -11192, -10232, -9360, -8576, -7856,
	-7192, -6576, -6000, -5456, -4944, -4464, -4008, -3576,
	-3168, -2776, -2400, -2032, -1688, -1360, -1040, -728,
	24808, 21904, 19008, 16704, 14984, 13512, 12280, 11192,
	10232, 9360, 8576, 7856, 7192, 6576, 6000, 5456,
	4944, 4464, 4008, 3576, 3168, 2776, 2400, 2032,
	1688, 1360, 1040, 728, 432, 136, -432, -136,
}

// highSteps are the higher band's output levels (QM2).
var highSteps = [4]int32{-7408, -1616, 7408, 1616}

// lowRow is the row of lowLog for four bits (RL42).
var lowRow = [16]int32{0, 7, 6, 5, 4, 3, 2, 1, 7, 6, 5, 4, 3, 2, 1, 0}

// lowLog is by how much the logarithm of the scale moves (WL).
var lowLog = [8]int32{-60, -30, 58, 172, 334, 538, 1198, 3042}

// highLog is the same by the two bits of the higher band (WH over RH2).
var highLog = [4]int32{798, -214, 798, -214}

// antilogs are 2048 times the powers of two from 0 to 31/32 (ILB).
var antilogs = [32]int32{
	2048, 2093, 2139, 2186, 2233, 2282, 2332, 2383, 2435, 2489, 2543, 2599, 2656, 2714, 2774, 2834,
	2896, 2960, 3025, 3091, 3158, 3228, 3298, 3371, 3444, 3520, 3597, 3676, 3756, 3838, 3922, 4008,
}
