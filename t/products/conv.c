/* conv.c - compares convolutions and their gradients with the reference, computed completely and in bands of rows.
 * Values are integers, so sums are exact and results must be bit-identical. The test tries several numbers of rows
 * and threads, and every combination of stride, padding, dilation, groups and window. */
#include "kernels/cpu/conv/conv.h"
#include "runtime/base/stop.h"
#include "t/lib/kernel/trial.h"

enum { IMAGES = 3, HEIGHT = 11, WIDTH = 6 };

static const struct image {
    enum dtype dtype;
    int64_t x, y, groups; /* x: number of channels of the image; y: number of channels of the result */
    int64_t columns;      /* number of columns of the window */
} images[] = {{DT_F32, 4, 6, 1, 2},   {DT_F32, 4, 6, 2, 2},    {DT_BF16, 4, 4, 4, 2},
              {DT_F32, 16, 32, 1, 2}, {DT_F32, 1, 20, 1, 2},   {DT_F32, 2, 3, 1, 1},
              {DT_F32, 4, 6, 1, 1},   {DT_BF16, 17, 20, 1, 1}, {DT_BF16, 17, 20, 1, 2}};

#define ANY                                                                                                            \
    {                                                                                                                  \
        INT64_MAX, 0                                                                                                   \
    }

static const struct split {
    struct conv_part part;
    int threads;
} splits[] = {{{1e18, 1, 16, ANY, ANY}, 1},
              {{1e18, 1, 16, {1, 0}, {1, 0}}, 1},
              {{1, 1, 16, ANY, ANY}, 1},
              {{1, 2, 16, ANY, ANY}, 2},
              {{1, 4, 16, ANY, ANY}, 1}};

/* Parameters of the window along the rows of the image, which the kernel cuts into bands. Along the columns,
 * stride and dilation are 1; the padding is 1 if the window has two columns, otherwise 0. */
struct window {
    int64_t size, stride, padding, dilation;
};

static int64_t
rows_of(const struct window *w)
{
    return (HEIGHT + 2 * w->padding - w->dilation * (w->size - 1) - 1) / w->stride + 1;
}

static void
describe(char *text, size_t size, const char *op, const struct image *image, const struct window *w)
{
    char x[100], kernel[100], y[100], attr[120];
    const char *t = dtype_text(image->dtype);
    long rows = rows_of(w), columns = WIDTH + image->columns - 1;
    snprintf(x, sizeof x, "%s{%d,%ld,%d,%d}", t, IMAGES, image->x, HEIGHT, WIDTH);
    snprintf(kernel, sizeof kernel, "%s{%ld,%ld,%ld,%ld}", t, image->y, image->x / image->groups, w->size,
             image->columns);
    snprintf(y, sizeof y, "%s{%d,%ld,%ld,%ld}", t, IMAGES, image->y, rows, columns);
    snprintf(attr, sizeof attr, "stride=%ld,1 padding=%ld,%ld dilation=%ld,1 groups=%ld", w->stride, w->padding,
             image->columns - 1, w->dilation, image->groups);
    if (!strcmp(op, "conv2d"))
        snprintf(text, size, "%s %s - %s", x, kernel, attr);
    else if (!strcmp(op, "conv2d_grad_x"))
        snprintf(text, size, "%s %s %s size=%d,%d", y, kernel, attr, HEIGHT, WIDTH);
    else
        snprintf(text, size, "%s %s %s size=%ld,%ld", x, y, attr, w->size, image->columns);
}

static void
make_whole(const struct view *v)
{
    for (int64_t i = 0; i < view_numel(v); i++)
        elem_set_f(v->dtype, v->data, i, floor(elem_get_f(v->dtype, v->data, i)));
}

static long looks;

static bool
look(void *arg)
{
    UNUSED(arg);
    looks++;
    return false;
}

static int
compute(struct trial *t, const struct split *split)
{
    conv_part = split->part;
    memset(t->got[0].memory, 0xff, (size_t)view_bytes(&t->got[0].view));
    looks = 0;
    return trial_run(t, &t->sample.call, split->threads, t->got, NULL);
}

/* Returns the number of parts into which the kernel divides a call. If only the caches limit a part, there is a part
 * for each image that oneDNN reorders. Otherwise there is a part for each band of rows, and for each group of channels
 * or batch of images. Bands have a minimum height, so that bands at the edges contain rows
 * of the image, not only padding. */
static int64_t
parts_of(const struct image *image, const struct window *w, const struct split *split)
{
    if (split->part.flops > 1) {
        bool reordered = image->dtype == DT_F32 && image->groups == 1 && image->x >= 3 && w->size * image->columns > 1;
        return reordered && split->part.pass.bytes == 1 ? IMAGES : 1;
    }
    bool product = w->size * image->columns == 1 && w->stride == 1 && w->padding == 0;
    int64_t turns = image->groups > 1 ? IMAGES * image->groups
                    : product         ? IMAGES
                                      : (IMAGES + split->threads - 1) / split->threads;
    int64_t least = (w->padding + w->stride - 1) / w->stride + 1, rows = MAX(split->part.rows, least);
    return turns * MAX((rows_of(w) + rows - least) / rows, 1);
}

static bool
good(struct trial *t, const char *text, const struct split *split, int64_t parts)
{
    int status = compute(t, split);
    bool same = !memcmp(t->got[0].memory, t->want[0].memory, (size_t)view_bytes(&t->got[0].view));
    if (!status && same && looks >= parts - 1) return true;
    diag("%s, %ld rows, %d threads: %s, %ld polls of %ld; %s", text, (long)split->part.rows, split->threads,
         same ? "the same" : "others", looks, (long)parts - 1, status ? err_text() : "");
    return false;
}

static bool
all_ways_good(const struct op *op, const struct image *image, const struct window *w)
{
    struct trial t;
    char text[450];
    bool all = true;
    describe(text, sizeof text, op->name, image, w);
    if (!trial_open(&t, op, text, DENSE, 1)) return false;
    for (int i = 0; i < 2; i++) make_whole(&t.in[i].view);
    all &= !trial_reference(&t);
    for (size_t i = 0; i < countof(splits); i++) all &= good(&t, text, &splits[i], parts_of(image, w, &splits[i]));
    trial_close(&t);
    return all;
}

static bool
all_windows_good(const struct op *op, const struct image *image, int64_t size)
{
    bool all = true;
    for (int64_t stride = 1; stride <= 3; stride++)
        for (int64_t padding = 0; padding <= 4; padding++)
            for (int64_t dilation = 1; dilation <= (size > 1 ? 2 : 1); dilation++)
                all &= all_ways_good(op, image, &(struct window){size, stride, padding, dilation});
    return all;
}

int
main(void)
{
    static const char *const names[] = {"conv2d", "conv2d_grad_x", "conv2d_grad_w"};
    stop_ask(look, NULL);
    for (size_t i = 0; i < countof(names); i++)
        for (const struct image *image = images; image < images + countof(images); image++)
            for (int64_t size = 1; size <= 3; size += 2)
                ok(all_windows_good(op_find(names[i]), image, size),
                   "%s of %s, %ld to %ld channels in %ld groups, windows of %ld x %ld: whole and in parts equal to the "
                   "reference",
                   names[i], dtype_text(image->dtype), (long)image->x, (long)image->y, (long)image->groups, (long)size,
                   (long)image->columns);
    stop_ask(NULL, NULL);
    return done();
}
