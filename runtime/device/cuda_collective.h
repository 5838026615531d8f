/* cuda_collective.h - keeps communicators of GPUs, and reconnects them after a failed run. device.h states the threads.
 */
#ifndef RILLE_RUNTIME_DEVICE_CUDA_COLLECTIVE_H
#define RILLE_RUNTIME_DEVICE_CUDA_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

struct collective_call;
struct communicator;
struct communicator_post;
struct stream;

struct communicator *cuda_communicator_get(bool edge, int32_t n, const int32_t *device);
int cuda_communicators_connect(int n, struct communicator *const *c, const struct communicator_post *post);
int cuda_collect(struct communicator *c, int32_t comm_rank, const struct collective_call *call, const struct stream *s,
                 const void *in, void *out);
void cuda_collect_cut(void);
/* Returns E_CANCEL between a cut and the next run, because launched work may be incomplete; else 0. */
int cuda_cut_work(void);

#endif
