/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench/gpu_pack/libraries.* says of cuBLAS and cuDNN against their headers, where those are
 * installed: compiled, not run. Each call passes what libraries.def names, in its order.
 */
#include <cublas_v2.h>
#include <cudnn.h>
#include <stddef.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)
#define CUDA_R_32F OUR_R_32F
#define CUDA_R_16F OUR_R_16F
#define CUDA_R_16BF OUR_R_16BF
#include "bench/gpu_pack/libraries.h"
#undef CUDA_R_32F
#undef CUDA_R_16F
#undef CUDA_R_16BF

SAME(OUR_R_32F, CUDA_R_32F);
SAME(OUR_R_16F, CUDA_R_16F);
SAME(OUR_R_16BF, CUDA_R_16BF);
SAME(COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(GEMM_DEFAULT, CUBLAS_GEMM_DEFAULT);
SAME(0, CUBLAS_OP_N);
SAME(0, CUBLAS_STATUS_SUCCESS);
SAME(DATA_FLOAT, CUDNN_DATA_FLOAT);
SAME(DATA_HALF, CUDNN_DATA_HALF);
SAME(DATA_BFLOAT16, CUDNN_DATA_BFLOAT16);
SAME(DEFAULT_MATH, CUDNN_DEFAULT_MATH);
SAME(TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH);
SAME(FMA_MATH, CUDNN_FMA_MATH);
SAME(TENSOR_NHWC, CUDNN_TENSOR_NHWC);
SAME(CROSS_CORRELATION, CUDNN_CROSS_CORRELATION);
SAME(0, CUDNN_STATUS_SUCCESS);
SAME(sizeof(AlgoPerf), sizeof(cudnnConvolutionFwdAlgoPerf_t));
SAME(offsetof(AlgoPerf, status), offsetof(cudnnConvolutionFwdAlgoPerf_t, status));
SAME(offsetof(AlgoPerf, memory), offsetof(cudnnConvolutionFwdAlgoPerf_t, memory));
SAME(offsetof(AlgoPerf, math), offsetof(cudnnConvolutionFwdAlgoPerf_t, mathType));

int calls(void *p, const void *q, int i, size_t *z);

int calls(void *p, const void *q, int i, size_t *z)
{
	int n = 0;

	n |= (int)cublasCreate_v2(p);
	n |= (int)cublasGemmEx(p, (cublasOperation_t)i, (cublasOperation_t)i, i, i, i, q, q,
			       (cudaDataType)i, i, q, (cudaDataType)i, i, q, p, (cudaDataType)i, i,
			       (cublasComputeType_t)i, (cublasGemmAlgo_t)i);
	n |= (int)cudnnCreate(p);
	n |= (int)cudnnCreateTensorDescriptor(p);
	n |= (int)cudnnCreateFilterDescriptor(p);
	n |= (int)cudnnCreateConvolutionDescriptor(p);
	n |= (int)cudnnSetTensor4dDescriptor(p, (cudnnTensorFormat_t)i, (cudnnDataType_t)i, i, i, i,
					     i);
	n |= (int)cudnnSetFilter4dDescriptor(p, (cudnnDataType_t)i, (cudnnTensorFormat_t)i, i, i, i,
					     i);
	n |= (int)cudnnSetConvolution2dDescriptor(p, i, i, i, i, i, i, (cudnnConvolutionMode_t)i,
						  (cudnnDataType_t)i);
	n |= (int)cudnnSetConvolutionMathType(p, (cudnnMathType_t)i);
	n |= (int)cudnnGetConvolutionForwardAlgorithm_v7(p, p, p, p, p, i, p, p);
	n |= (int)cudnnGetConvolutionForwardWorkspaceSize(p, p, p, p, p,
							  (cudnnConvolutionFwdAlgo_t)i, z);
	n |= (int)cudnnConvolutionForward(p, q, p, q, p, q, p, (cudnnConvolutionFwdAlgo_t)i, p, *z,
					  q, p, p);
	return n;
}
