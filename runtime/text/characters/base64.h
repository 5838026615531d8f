/* base64.h - decodes base64 (RFC 4648). Pure; any thread. */
#ifndef RILLE_RUNTIME_TEXT_CHARACTERS_BASE64_H
#define RILLE_RUNTIME_TEXT_CHARACTERS_BASE64_H

#include "runtime/base/base.h"

/* Decodes complete groups of four characters, the last of which may be padded. out: room for n * 3 / 4 bytes; may
 * be the memory of the text. Returns false if the text is not base64. */
bool base64_read(const char *text, size_t n, uint8_t *out, size_t *bytes);

#endif
