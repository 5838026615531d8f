/* cudnn_abi.h - declarations of the cuDNN 9 graph API that Rille calls.
 *
 * libcudnn.so.9 is opened at run time, and its headers are not needed, because few machines have them. Constants
 * have cuDNN's names with the prefix DNN_ instead of CUDNN_, like DNN_STATUS_SUCCESS. cuDNN's enums are declared
 * as int, handles and descriptors as pointers. t/cuda/cudnn.sh compares these declarations with the real headers
 * and the library if they are installed. For C and C++. The library owns all objects; the head of convolutions.cu
 * says which thread may use them. */
#ifndef RILLE_KERNELS_CUDA_CUDNN_ABI_H
#define RILLE_KERNELS_CUDA_CUDNN_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
#define FACT(name, value) DNN_##name = value,
#include "kernels/cuda/plugin/cudnn.def"
#undef FACT
};

struct CUstream_st;
/* Lists cuDNN's functions as CALL(name in cuDNN, result, arguments). All except the first function return a
 * status. */
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
