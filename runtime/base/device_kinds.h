/* device_kinds.h - the kinds of devices, and their names. Constants; any thread. */
#ifndef RILLE_DEVICE_KINDS_H
#define RILLE_DEVICE_KINDS_H

enum { DEV_CPU, DEV_META, DEV_ASYNC, DEV_CUDA, NDEVICE_KIND };

/* Returns the name of a kind, as users write it: "cpu". */
const char *device_kind_text(int kind);

/* Returns the device kind with this name. If there is none, calls fail(E_PLACE) and returns -1. */
int device_kind_parse(const char *text);

#endif
