/* safetensors.h - writes .safetensors files; also declares what readers and writers share. The caller owns what is
 * read and saved; one thread at a time. */
#ifndef RILLE_RUNTIME_FILE_SAFETENSORS_H
#define RILLE_RUNTIME_FILE_SAFETENSORS_H

#include "runtime/file/codec/json.h"
#include "runtime/file/disk/save.h"
#include "runtime/file/tensors.h"

enum { SAFETENSORS_HEAD = 100000000 }; /* maximum number of bytes of a header */
const char *safetensors_dtype(enum dtype d);
/* Sets the type of e from the header's "dtype" and "shape". *bits: size of the value, bits. E_IO. */
int safetensors_type(struct entry *e, const json_t *dtype, const json_t *shape, int64_t *bits);

#endif
