/* devices.h - devices of a session, and their memory pools. The session owns the pools. Used only on the
 * session's thread. */
#ifndef RILLE_SESSION_DEVICES_H
#define RILLE_SESSION_DEVICES_H

#include "actors/plan/model/rates.h"
#include "boxing/path.h"
#include "runtime/device/device.h"

struct cuda_choice;
struct place;
struct rille_session;
struct session_devices {
    struct pool **pool[NDEVICE_KIND];
    int32_t npool[NDEVICE_KIND];   /* number of entries of pool[kind] */
    int32_t ndevice[NDEVICE_KIND]; /* number of devices, by kind */
    /* number of the table of workers' devices (cluster_table) to which the session was adapted last */
    uint32_t table;
    int default_kind;
    size_t memory_limit; /* memory limit in bytes per device; 0: none */
    int32_t threads;
    struct box_cost cost;       /* costs of moves, built in or calibrated (cost.h) */
    struct compute_rates rates; /* rates of computing, with which planners predict times; built in or calibrated */
};
/* Returns the memory pool of a device. Creates the pool at the first call. */
int session_pool(struct rille_session *s, int kind, int rank, struct pool **out);
/* Sets in *gpus how GPUs run collectives: `how` is "nccl" (by the NCCL library) or "own" (each rank reads the
 * shards of other ranks in place). E_ARG: unknown name. E_PLACE: "nccl", but `devices` names no GPU. */
int session_collectives(const char *how, const char *devices, struct cuda_choice *gpus);
/* Checks that the session has all devices of the placement. E_PLACE: a device is missing. */
int place_exists(struct rille_session *s, const struct place *p);

#endif
