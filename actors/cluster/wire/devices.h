/* devices.h - parses lists of devices: counts by kind, "cpu:8,async:2", or chosen GPUs, "cuda:0,cuda:1x2". Values;
 * any thread. */
#ifndef RILLE_CLUSTER_DEVICES_H
#define RILLE_CLUSTER_DEVICES_H

#include "runtime/device/device.h"
#include "runtime/device/device_cuda.h"
#include "runtime/base/str.h"

struct device_counts {
    int32_t n[NDEVICE_KIND];
    int first;               /* first kind in the text */
    struct cuda_choice gpus; /* GPUs of the n[DEV_CUDA] devices */
};
/* Returns a device as one number, for exchange between processes. */
static inline uint64_t
device_number(int kind, int32_t rank)
{
    return (uint64_t)(uint32_t)kind << 32 | (uint32_t)rank;
}
/* Parses a list of devices. here: the text names GPUs of this process's driver, as a session selects them
 * (cuda_choose). Otherwise the text comes from another process and says how many devices "cuda:all" are. E_PLACE:
 * malformed. */
int device_counts_parse(const char *text, bool here, struct device_counts *out);
/* Parses a worker's list: kinds cpu, late and cuda only, with cpu devices, because values of other workers pass
 * through those. */
int device_counts_of_worker(const char *text, bool here, struct device_counts *out);
/* Returns true if d matches the wanted devices. "cuda:all" matches one whole GPU or more. */
bool device_counts_suit(const struct device_counts *wanted, const struct device_counts *d);
void device_counts_print(const struct device_counts *d, struct str *out);

#endif
