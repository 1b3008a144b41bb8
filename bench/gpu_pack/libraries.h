/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and structs of cuBLAS and cuDNN, as their documentation has them; checked by
 * tests/gpu_pack/headers.c. */
#ifndef BENCH_GPU_PACK_LIBRARIES_H
#define BENCH_GPU_PACK_LIBRARIES_H

#include <stddef.h>

enum { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };       /* cudaDataType */
enum { COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77 };           /* cublasComputeType_t */
enum { GEMM_DEFAULT = -1 };                                      /* cublasGemmAlgo_t */
enum { DATA_FLOAT = 0, DATA_HALF = 2, DATA_BFLOAT16 = 9 };       /* cudnnDataType_t */
enum { DEFAULT_MATH = 0, TENSOR_OP_MATH = 1, FMA_MATH = 3 };     /* cudnnMathType_t */
enum { TENSOR_NHWC = 1 };                                        /* cudnnTensorFormat_t */
enum { CROSS_CORRELATION = 1 };                                  /* cudnnConvolutionMode_t */

/* cudnnConvolutionFwdAlgoPerf_t */
typedef struct AlgoPerf {
	int algo, status;
	float time;
	size_t memory;
	int determinism, math, reserved[3];
} AlgoPerf;

#endif
