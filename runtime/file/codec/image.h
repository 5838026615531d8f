/* image.h - decodes PNG and JPEG files.
 *
 * The bytes are untrusted: damage is an error, except damage that JPEG decoders repair. Memory is allocated for the
 * pixels only if the size in the header is at most IMAGE_PIXELS. Any thread. */
#ifndef RILLE_RUNTIME_FILE_CODEC_IMAGE_H
#define RILLE_RUNTIME_FILE_CODEC_IMAGE_H

#include "runtime/base/base.h"

enum { IMAGE_PIXELS = 1 << 27 }; /* maximum number of pixels of an image */

struct image {
    int64_t height, width;
    uint8_t *bytes; /* red, green and blue planes, {3, height, width}; the caller frees them */
};
/* Decodes an image, and turns it to the orientation that a camera stored (EXIF). name: file name in error texts. Grey
 * values are repeated as red, green and blue; 16-bit values keep their high byte; CMYK becomes RGB without a colour
 * profile; transparency is ignored. E_IO. */
int image_decode(const char *name, const void *bytes, size_t n, struct image *out);

#endif
