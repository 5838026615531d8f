/* cudnn_abi.h - what Rille calls of cuDNN 9, by its graph API: libcudnn.so.9 is opened at run time, and its headers are
 * on few machines. The numbers are DNN_STATUS_SUCCESS...; an enum of cuDNN's is an int, a handle or a descriptor a
 * pointer. t/cuda-cudnn.sh holds all of it to the real headers, and to the library, where there are some. C and C++;
 * what is called belongs to the library, and convolutions.cu says which thread may call it. */
#ifndef RILLE_KERNELS_CUDA_CUDNN_ABI_H
#define RILLE_KERNELS_CUDA_CUDNN_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
#define FACT(name, value) DNN_##name = value,
#include "kernels/cuda/cudnn.def"
#undef FACT
};

struct CUstream_st;
/* Each is the type of a function: CALL(its name there, result, arguments). Results are statuses but for the first. */
#define CUDNN_CALLS(CALL)                                                                                              \
    CALL(cudnnGetVersion, size_t, (void))                                                                              \
    CALL(cudnnGetErrorString, const char *, (int status))                                                              \
    CALL(cudnnGetLastErrorString, void, (char *text, size_t capacity))                                                 \
    CALL(cudnnCreate, int, (void **handle))                                                                            \
    CALL(cudnnSetStream, int, (void *handle, struct CUstream_st *stream))                                              \
    CALL(cudnnBackendCreateDescriptor, int, (int type, void **descriptor))                                             \
    CALL(cudnnBackendDestroyDescriptor, int, (void *descriptor))                                                       \
    CALL(cudnnBackendFinalize, int, (void *descriptor))                                                                \
    CALL(cudnnBackendSetAttribute, int, (void *descriptor, int attribute, int type, int64_t n, const void *elements))  \
    CALL(cudnnBackendGetAttribute, int,                                                                                \
         (void *descriptor, int attribute, int type, int64_t room, int64_t *n, void *elements))                        \
    CALL(cudnnBackendExecute, int, (void *handle, void *plan, void *pack))

#define CUDNN_TYPE_OF(name, result, arguments) typedef result name##_fn arguments;
CUDNN_CALLS(CUDNN_TYPE_OF)
#undef CUDNN_TYPE_OF

#endif
