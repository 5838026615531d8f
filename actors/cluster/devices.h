/* devices.h - how many devices of each kind a process has: "cpu:8,late:2", or which GPUs: "cuda:0,cuda:1x2". Values;
 * any thread. */
#ifndef RILLE_CLUSTER_DEVICES_H
#define RILLE_CLUSTER_DEVICES_H

#include "runtime/device.h"
#include "runtime/device_cuda.h"
#include "runtime/str.h"

struct device_counts {
    int32_t n[NDEVICE_KIND];
    int first;               /* the kind that the text names first */
    struct cuda_choice gpus; /* of the n[DEV_CUDA] devices */
};
/* A device as a number, between processes. */
static inline uint64_t
device_number(int kind, int32_t rank)
{
    return (uint64_t)(uint32_t)kind << 32 | (uint32_t)rank;
}
/* here: GPUs are those of this process's driver, which a session takes (cuda_choose); else they are another process's,
 * and "cuda:all" is how many it says that they are. E_PLACE: what is wrong with the text. */
int device_counts_parse(const char *text, bool here, struct device_counts *out);
/* The same for a worker: it has cpu devices, through which bytes of others come and go. */
int device_counts_of_worker(const char *text, bool here, struct device_counts *out);
/* Are these the devices that are wanted? "cuda:all" wants whole GPUs, one at least. */
bool device_counts_suit(const struct device_counts *wanted, const struct device_counts *d);
void device_counts_print(const struct device_counts *d, struct str *out);

#endif
