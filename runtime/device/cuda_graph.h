/* cuda_graph.h - replays repeated sequences of launches as CUDA graphs. The stream's thread. */
#ifndef RILLE_RUNTIME_DEVICE_CUDA_GRAPH_H
#define RILLE_RUNTIME_DEVICE_CUDA_GRAPH_H

#include "runtime/device/device_cuda.h"

/* Sets whether this thread gathers its launches in order to replay repeated sequences as one graph. */
void cuda_graph_gather(bool on);
/* Launches the work that this thread has gathered. Call this function before the thread waits, records an event,
 * waits for an event, or puts other work on its stream. E_KERNEL. */
int cuda_graph_launch(void);
/* Launch a kernel or a library call at once or, with gathering on, later. E_KERNEL. */
int cuda_graph_kernel(int gpu, void *kernel, int64_t blocks, int threads, const void *argument, size_t bytes);
int cuda_graph_algo(int gpu, cuda_algo_fn *by, const void *algo, const struct cuda_factors *at);
struct cuda_graph_count {
    /* graphs: number of graphs that this process created; replays: number of graph launches */
    int64_t graphs, replays;
};
struct cuda_graph_count cuda_graphs(void); /* any thread */

#endif
