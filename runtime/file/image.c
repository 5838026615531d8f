/* image.c - decodes PNG files by libpng, and JPEG files by libjpeg. */
#include "runtime/file/image.h"

#include "runtime/base/arena.h"
#include "runtime/base/error.h"

#ifdef RILLE_IMAGES

#include <jerror.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* jpeglib.h needs size_t and FILE of the headers above. */
#include <jpeglib.h>

/* An image that is being decoded. The libraries report errors by on_png_error() and on_jpeg_error(), which jump to
 * `failed`. */
struct decoding {
    const uint8_t *at; /* next byte of the file; only for PNG */
    size_t left;
    uint8_t *rgb;   /* pixels, {height, width, 3} */
    uint8_t **rows; /* pointers to the rows of rgb */
    int64_t height, width;
    char why[JMSG_LENGTH_MAX];
    jmp_buf failed;
};

/* Allocates the pixels. Returns false if the image is larger than IMAGE_PIXELS. */
static bool
image_allocate(struct decoding *d, int64_t height, int64_t width)
{
    snprintf(d->why, sizeof d->why, "expected at most %d pixels, found %lld x %lld", IMAGE_PIXELS, (long long)height,
             (long long)width);
    if (height > IMAGE_PIXELS / width) return false;
    d->height = height, d->width = width;
    d->rgb = must_alloc((size_t)(height * width * 3));
    d->rows = must_alloc(sizeof *d->rows * (size_t)height);
    for (int64_t i = 0; i < height; i++) d->rows[i] = d->rgb + i * width * 3;
    return true;
}

/* ---- PNG ---- */

static void
on_png_error(png_structp png, png_const_charp text)
{
    struct decoding *d = png_get_error_ptr(png);
    snprintf(d->why, sizeof d->why, "%s", text);
    longjmp(d->failed, 1);
}

static void
ignore_png_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void
read_png_bytes(png_structp png, png_bytep out, size_t n)
{
    struct decoding *d = png_get_io_ptr(png);
    if (n > d->left) png_error(png, "the file ends early");
    memcpy(out, d->at, n);
    d->at += n, d->left -= n;
}

/* Sets the conversions to rows of 3 bytes per pixel. */
static void
convert_png(png_structp png)
{
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    png_set_interlace_handling(png);
}

/* Returns false, with d->why, if the file cannot be decoded. */
static bool
decode_png(struct decoding *d)
{
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, on_png_error, ignore_png_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    bool done = false;
    snprintf(d->why, sizeof d->why, "out of memory");
    if (info && !setjmp(d->failed)) {
        png_set_read_fn(png, d, read_png_bytes);
        png_set_user_limits(png, IMAGE_PIXELS, IMAGE_PIXELS);
        png_read_info(png, info);
        if (!image_allocate(d, png_get_image_height(png, info), png_get_image_width(png, info))) longjmp(d->failed, 1);
        convert_png(png);
        png_read_update_info(png, info);
        assert(png_get_rowbytes(png, info) == (size_t)d->width * 3);
        png_read_image(png, d->rows);
        png_read_end(png, NULL);
        done = true;
    }
    png_destroy_read_struct(&png, &info, NULL);
    return done;
}

/* ---- JPEG ---- */

static void
on_jpeg_error(j_common_ptr c)
{
    struct decoding *d = c->client_data;
    c->err->format_message(c, d->why);
    longjmp(d->failed, 1);
}

/* Treats a warning (level -1) as an error, except that of superfluous bytes, which many cameras write. */
static void
on_jpeg_message(j_common_ptr c, int level)
{
    if (level < 0 && c->err->msg_code != JWRN_EXTRANEOUS_DATA) on_jpeg_error(c);
}

static bool
decode_jpeg(struct decoding *d)
{
    struct jpeg_error_mgr errors;
    struct jpeg_decompress_struct c = {.err = jpeg_std_error(&errors), .client_data = d};
    bool done = false;
    errors.error_exit = on_jpeg_error, errors.emit_message = on_jpeg_message;
    if (!setjmp(d->failed)) {
        jpeg_create_decompress(&c);
        jpeg_mem_src(&c, d->at, d->left);
        jpeg_read_header(&c, TRUE);
        if (!image_allocate(d, c.image_height, c.image_width)) longjmp(d->failed, 1);
        c.out_color_space = JCS_RGB;
        jpeg_start_decompress(&c);
        while (c.output_scanline < c.output_height) jpeg_read_scanlines(&c, &d->rows[c.output_scanline], 1);
        jpeg_finish_decompress(&c);
        done = true;
    }
    jpeg_destroy_decompress(&c);
    return done;
}

/* ---- both ---- */

/* Returns new memory with the pixels, in planes. */
static uint8_t *
planes_of(const struct decoding *d)
{
    int64_t n = d->height * d->width;
    uint8_t *planes = must_alloc((size_t)n * 3);
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 3; k++) planes[k * n + i] = d->rgb[i * 3 + k];
    return planes;
}

int
image_decode(const char *name, const void *bytes, size_t n, struct image *out)
{
    struct decoding d = {.at = bytes, .left = n};
    bool png = n >= 8 && !png_sig_cmp(bytes, 0, 8), jpeg = n >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3);
    if (!png && !jpeg) return fail(E_IO, "%s: expected a PNG or JPEG file, found other bytes", name);
    int status = (png ? decode_png : decode_jpeg)(&d)
                     ? 0
                     : fail(E_IO, "%s: the %s file is damaged or not supported: %s", name, png ? "PNG" : "JPEG", d.why);
    if (!status) *out = (struct image){.height = d.height, .width = d.width, .bytes = planes_of(&d)};
    free(d.rgb);
    free(d.rows);
    return status;
}

#else

int
image_decode(const char *name, const void *bytes, size_t n, struct image *out)
{
    (void)bytes, (void)n, (void)out;
    return fail(E_IO,
                "%s: this build reads no images; install libpng-dev and libjpeg-dev (Debian), run cmake "
                "again, and build",
                name);
}

#endif
