/* json.h - parses JSON strictly: rejects duplicate names, and names the file in error texts. The library is
 * jansson. The caller owns the result; any thread. */
#ifndef RILLE_RUNTIME_FILE_CODEC_JSON_H
#define RILLE_RUNTIME_FILE_CODEC_JSON_H

#include "runtime/base/base.h"

#include <jansson.h>

/* Parse a JSON object from a text or a file. The caller frees the object with json_decref(). E_IO: *out is NULL. */
int json_text(const char *file, const char *text, size_t n, json_t **out);
int json_file(const char *path, int64_t most, json_t **out);
/* Returns a new list of n numbers. */
json_t *json_numbers(const int64_t *v, int n);

#endif
