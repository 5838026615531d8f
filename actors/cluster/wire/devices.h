/* devices.h - parses lists of devices: counts by kind, "cpu:8,async:2", or chosen GPUs, "cuda:0,cuda:1x2". Pure
 * functions of their arguments; any thread. */
#ifndef RILLE_CLUSTER_DEVICES_H
#define RILLE_CLUSTER_DEVICES_H

#include "runtime/device/device.h"
#include "runtime/device/device_cuda.h"
#include "runtime/data/str.h"

struct device_counts {
    int32_t n[NDEVICE_KIND];
    int first;               /* device kind that the list names first */
    struct cuda_choice gpus; /* the GPUs chosen for the n[DEV_CUDA] cuda devices */
};
/* Returns a device's kind and index as one number, which processes can exchange. */
static inline uint64_t
device_number(int kind, int32_t rank)
{
    return (uint64_t)(uint32_t)kind << 32 | (uint32_t)rank;
}
/* Parses a list of devices. With here = true, the list selects GPUs of this process's driver, as a session does
 * (cuda_choose). With here = false, the list is from another process: no GPU is looked up, and the number of GPUs of
 * "cuda:all" stays unknown. E_PLACE: malformed. */
int device_counts_parse(const char *text, bool here, struct device_counts *out);
/* Parses a worker's list of devices. The permitted kinds are cpu, async and cuda. The list must have cpu devices,
 * because values of other workers pass through cpu devices. */
int device_counts_of_worker(const char *text, bool here, struct device_counts *out);
/* Returns true if devices d are the wanted devices. "cuda:all" matches any number of whole GPUs, at least one. */
bool device_counts_suit(const struct device_counts *wanted, const struct device_counts *d);
void device_counts_print(const struct device_counts *d, struct str *out);

#endif
