/* stream_host.h - streams whose work a host thread executes, for kinds whose devices have no streams. Each
 * function implements the function of this name in struct device_kind (device.h); host_stream_new also gets the
 * kind. Owner and threads are as in stream.h. */
#ifndef RILLE_RUNTIME_STREAM_HOST_H
#define RILLE_RUNTIME_STREAM_HOST_H

#include "runtime/device/stream.h"

/* Creates a host stream of this kind. E_MEMORY, E_KERNEL. */
int host_stream_new(const struct device_kind *kind, int device, int role, bool driven, struct stream **out);
void host_stream_free(struct stream **s); /* all work of the stream must be complete */
int host_stream_enqueue(struct stream *s, const struct stream_work *w);
int64_t host_stream_mark(const struct stream *s);
bool host_stream_passed(const struct stream *s, int64_t mark);
void host_stream_wait(struct stream *s, const struct stream *other, int64_t mark);
void host_stream_show(struct stream *s);
int host_stream_trouble(struct stream *s, int64_t mark);
bool host_stream_step(struct stream *s);
void host_stream_tell(struct stream *s, void (*fn)(void *of), void *of);

#endif
