/* carrier_channels.h - the channels of a plan partition, as device threads use them. The carrier owns the channels. */
#ifndef RILLE_ACTORS_CLUSTER_TRANSPORT_CARRIER_CHANNELS_H
#define RILLE_ACTORS_CLUSTER_TRANSPORT_CARRIER_CHANNELS_H

#include <stdint.h>

struct carrier;
struct carrier_channel;
struct channel_far;
struct msg;
struct plan;
struct transport;

/* The channels of a connected plan partition, for one run at a time. far: by channel, the address of the channel's
 * other end in this epoch. p and far must outlive the result. */
struct carrier_channels;
struct carrier_channels *carrier_channels_new(struct carrier *c, const struct plan *p, const struct channel_far *far);
void carrier_channels_free(struct carrier_channels **k);
const struct transport *carrier_channels_transport(const struct carrier_channels *k);
/* carrier_begin begins a run of the channels, and carrier_end ends it. Called on the main thread. */
void carrier_begin(struct carrier *c, struct carrier_channels *k, uint32_t run);
void carrier_end(struct carrier *c);
/* Returns the sending end of the channel to which a FULL belongs; NULL: the channel has no bytes. */
struct carrier_channel *carrier_channels_find(const struct carrier_channels *k, const struct msg *m);

#endif
