/* collectives.h - collectives by NCCL, for struct cuda_plugin. Any thread. */
#ifndef RILLE_KERNELS_CUDA_PLUGIN_COLLECTIVES_H
#define RILLE_KERNELS_CUDA_PLUGIN_COLLECTIVES_H

#include <stdbool.h>

struct cuda_collective;

/* collectives.cu implements the functions of struct cuda_plugin for collectives. */
const char *collectives_library(const char **why);
void *collectives_communicator(int n, const int *gpu);
const char *collectives_identify(void *id);
const char *collectives_connect(void *communicator, const void *id, bool (*left)(void *of), void *of);
const char *collectives_collect(void *communicator, int rank, const struct cuda_collective *what, const void *in,
                                void *out);
void collectives_cut(void *communicator);
void collectives_drop(void *communicator);

#endif
