/* json.h - strict reading of JSON: duplicate names are refused, and errors name the file. The library is jansson.
 * The caller owns the result; any thread. */
#ifndef RILLE_RUNTIME_FILE_JSON_H
#define RILLE_RUNTIME_FILE_JSON_H

#include "runtime/base/base.h"

#include <jansson.h>

/* Read an object, which the caller frees by json_decref(). E_IO. */
int json_text(const char *file, const char *text, size_t n, json_t **out);
int json_file(const char *path, int64_t most, json_t **out);

#endif
