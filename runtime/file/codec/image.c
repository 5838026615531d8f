/* image.c - decodes PNG files by libpng and JPEG files by libjpeg, and turns images to the orientation in their
 * EXIF data. */
#include "runtime/file/codec/image.h"

#include "runtime/data/arena.h"
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
    uint8_t *pixels; /* {height, width, samples} */
    uint8_t **rows;  /* pointers to the rows of pixels */
    int64_t height, width;
    int samples;     /* bytes of a pixel in `pixels` */
    int orientation; /* 1 to 8, as in EXIF */
    char why[JMSG_LENGTH_MAX];
    jmp_buf failed;
};

/* Allocates the pixels. Returns false if the image is larger than IMAGE_PIXELS. */
static bool
image_allocate(struct decoding *d, int64_t height, int64_t width, int samples)
{
    snprintf(d->why, sizeof d->why, "expected at most %d pixels, found %lld x %lld", IMAGE_PIXELS, (long long)height,
             (long long)width);
    if (height > IMAGE_PIXELS / width) return false;
    d->height = height, d->width = width, d->samples = samples;
    d->pixels = must_alloc((size_t)(height * width * samples));
    d->rows = must_alloc(sizeof *d->rows * (size_t)height);
    for (int64_t i = 0; i < height; i++) d->rows[i] = d->pixels + i * width * samples;
    return true;
}

/* ---- reading and applying the orientation of an image ---- */

/* Returns the integer of `size` bytes at p. */
static uint32_t
exif_integer(const uint8_t *p, int size, bool big)
{
    uint32_t v = 0;
    for (int i = 0; i < size; i++) v |= (uint32_t)p[i] << 8 * (big ? size - 1 - i : i);
    return v;
}

/* Reads the orientation from the n bytes of EXIF data, a TIFF file. Sets nothing if the data are damaged or have no
 * orientation. */
static void
read_exif(struct decoding *d, const uint8_t *p, size_t n)
{
    enum { HEAD = 8, ENTRY = 12, ORIENTATION = 0x0112, SHORT = 3, LONG = 4 };
    bool big = n >= HEAD && !memcmp(p, "MM\0*", 4);
    if (!big && (n < HEAD || memcmp(p, "II*\0", 4) != 0)) return;
    size_t at = exif_integer(p + 4, 4, big);
    if (at > n - 2) return;
    for (uint32_t left = exif_integer(p + at, 2, big), i = 0; i < left && at + 2 + ENTRY * (i + 1) <= n; i++) {
        const uint8_t *entry = p + at + 2 + ENTRY * i;
        uint32_t type = exif_integer(entry + 2, 2, big), value;
        if (exif_integer(entry, 2, big) != ORIENTATION || (type != SHORT && type != LONG)) continue;
        value = exif_integer(entry + 8, type == SHORT ? 2 : 4, big);
        if (value >= 1 && value <= 8) d->orientation = (int)value;
        return;
    }
}

/* Returns the pixel of the stored image that is shown in row i and column j. */
static const uint8_t *
shown_pixel(const struct decoding *d, int64_t i, int64_t j)
{
    int64_t row = d->orientation >= 5 ? j : i, column = d->orientation >= 5 ? i : j;
    bool up = d->orientation == 3 || d->orientation == 4 || d->orientation == 6 || d->orientation == 7;
    bool left = d->orientation == 2 || d->orientation == 3 || d->orientation == 7 || d->orientation == 8;
    return d->rows[up ? d->height - 1 - row : row] + d->samples * (left ? d->width - 1 - column : column);
}

/* ---- decoding PNG files ---- */

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

static void
read_png_exif(struct decoding *d, png_structp png, png_infop info)
{
    png_uint_32 n = 0;
    png_bytep bytes = NULL;
    if (png_get_eXIf_1(png, info, &n, &bytes)) read_exif(d, bytes, n);
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
        if (!image_allocate(d, png_get_image_height(png, info), png_get_image_width(png, info), 3))
            longjmp(d->failed, 1);
        convert_png(png);
        png_read_update_info(png, info);
        assert(png_get_rowbytes(png, info) == (size_t)d->width * 3);
        png_read_image(png, d->rows);
        png_read_end(png, info);
        read_png_exif(d, png, info);
        done = true;
    }
    png_destroy_read_struct(&png, &info, NULL);
    return done;
}

/* ---- decoding JPEG files ---- */

static void
on_jpeg_error(j_common_ptr c)
{
    struct decoding *d = c->client_data;
    c->err->format_message(c, d->why);
    longjmp(d->failed, 1);
}

/* Treats a warning (level -1) as an error. The exception is the warning about superfluous bytes, because many
 * cameras write such bytes. */
static void
on_jpeg_message(j_common_ptr c, int level)
{
    if (level < 0 && c->err->msg_code != JWRN_EXTRANEOUS_DATA) on_jpeg_error(c);
}

static void
read_jpeg_exif(struct decoding *d, const struct jpeg_marker_struct *m)
{
    static const char head[6] = "Exif\0";
    for (; m; m = m->next) {
        if (m->data_length < sizeof head || memcmp(m->data, head, sizeof head) != 0) continue;
        read_exif(d, m->data + sizeof head, m->data_length - sizeof head);
        return;
    }
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
        jpeg_save_markers(&c, JPEG_APP0 + 1, 0xffff);
        jpeg_read_header(&c, TRUE);
        if (!image_allocate(d, c.image_height, c.image_width, c.num_components == 4 ? 4 : 3)) longjmp(d->failed, 1);
        read_jpeg_exif(d, c.marker_list);
        c.out_color_space = d->samples == 4 ? JCS_CMYK : JCS_RGB;
        jpeg_start_decompress(&c);
        while (c.output_scanline < c.output_height) jpeg_read_scanlines(&c, &d->rows[c.output_scanline], 1);
        jpeg_finish_decompress(&c);
        done = true;
    }
    jpeg_destroy_decompress(&c);
    return done;
}

/* ---- decoding either format ---- */

/* Returns colour k (red, green, blue) of a pixel. JPEG files store cyan, magenta, yellow and black inverted, as Adobe
 * does. */
static uint8_t
colour_of(const struct decoding *d, const uint8_t *pixel, int k)
{
    if (d->samples == 3) return pixel[k];
    uint32_t black = pixel[3], ink = (255u - pixel[k]) * black + 128; /* rounded as Pillow does */
    return (uint8_t)(black - (ink + (ink >> 8)) / 256);
}

/* Returns new memory with the pixels of the shown image, in planes, and sets the size of the shown image. */
static uint8_t *
planes_of(const struct decoding *d, int64_t *height, int64_t *width)
{
    bool turned = d->orientation >= 5;
    int64_t h = turned ? d->width : d->height, w = turned ? d->height : d->width;
    uint8_t *planes = must_alloc((size_t)(h * w) * 3);
    for (int64_t i = 0; i < h * w; i++) {
        const uint8_t *pixel = shown_pixel(d, i / w, i % w);
        for (int k = 0; k < 3; k++) planes[k * h * w + i] = colour_of(d, pixel, k);
    }
    *height = h, *width = w;
    return planes;
}

int
image_decode(const char *name, const void *bytes, size_t n, struct image *out)
{
    struct decoding d = {.at = bytes, .left = n, .orientation = 1};
    bool png = n >= 8 && !png_sig_cmp(bytes, 0, 8), jpeg = n >= 3 && !memcmp(bytes, "\xff\xd8\xff", 3);
    if (!png && !jpeg) return fail(E_IO, "%s: expected a PNG or JPEG file, found other bytes", name);
    int status = (png ? decode_png : decode_jpeg)(&d)
                     ? 0
                     : fail(E_IO, "%s: the %s file is damaged or not supported: %s", name, png ? "PNG" : "JPEG", d.why);
    if (!status) out->bytes = planes_of(&d, &out->height, &out->width);
    free(d.pixels);
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
