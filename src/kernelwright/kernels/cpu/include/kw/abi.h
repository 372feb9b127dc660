// The one C ABI of native CPU kernels. Plain C: no torch headers, no C++ types.
//
// A kernel is a function
//     int32_t kw_<operator>(const kw_call *call, void *buffer0, ..., void *bufferN)
// with one buffer a tensor, in the order of the operator's tensors, outputs last. `call` describes every
// tensor; it is immutable and shared between calls, so that a repeated call passes pointers only.
// Sizes and strides are in elements and 64-bit. A kernel never allocates its outputs, never keeps a pointer,
// never throws, and returns a kw_status. KW_MAX_TENSORS bounds the number of buffers.
#ifndef KW_ABI_H
#define KW_ABI_H

#include <stdint.h>

#define KW_ABI_VERSION 1
#define KW_MAX_DIMS 4
#define KW_MAX_TENSORS 6
#define KW_MAX_SCALARS 4

#ifdef __cplusplus
#define KW_EXPORT extern "C" __attribute__((visibility("default")))
extern "C" {
#else
#define KW_EXPORT __attribute__((visibility("default")))
#endif

typedef enum kw_dtype {
  KW_F32 = 0,
  KW_BF16 = 1,
  KW_F16 = 2,
} kw_dtype;

typedef enum kw_status {
  KW_OK = 0,
  KW_UNSUPPORTED_DTYPE = 1,
  KW_UNSUPPORTED_LAYOUT = 2,
  KW_BAD_ARGUMENT = 3,
  KW_OUT_OF_MEMORY = 4,
  KW_ABI_MISMATCH = 5,
} kw_status;

typedef enum kw_flag {
  // The output was allocated for this call and is large, so that its pages do not exist before they are
  // touched.
  KW_FRESH_OUTPUT = 1,
} kw_flag;

typedef struct kw_tensor {
  int64_t size[KW_MAX_DIMS];
  int64_t stride[KW_MAX_DIMS];
  int32_t ndim;
  int32_t dtype;
} kw_tensor;

typedef struct kw_call {
  int32_t abi_version;  // KW_ABI_VERSION
  int32_t tensors;      // how many of `tensor` are used
  int32_t threads;      // at most this many; 0: what OpenMP would use
  int32_t flags;        // of kw_flag
  double scalar[KW_MAX_SCALARS];
  kw_tensor tensor[KW_MAX_TENSORS];
} kw_call;

#ifdef __cplusplus
}
#endif
#endif  // KW_ABI_H
