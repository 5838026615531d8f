/* gpus.c - prints and parses descriptions of GPUs, which are entries that end with a bar, "|". */
#include "actors/cluster/wire/gpus.h"

#include "runtime/data/arena.h"
#include "runtime/base/error.h"
#include "runtime/device/cuda_kernel.h"

#include <stdlib.h>
#include <string.h>

static void
end_entry(struct str *s, size_t begin)
{
    for (size_t i = begin; i < s->len; i++)
        if (s->text[i] < ' ' || s->text[i] > '~' || s->text[i] == '|') s->text[i] = ' ';
    str_add(s, "|");
}

void
gpus_print(int first, int n, struct str *out)
{
    struct cuda_gpu g;
    size_t begin = out->len;
    if (n == 0) return;
    cuda_kernel_about(out);
    end_entry(out, begin);
    for (int i = 0; i < n; i++) {
        begin = out->len;
        if (cuda_gpu_of(first + i, &g)) err_clear();
        str_addf(out, "%d.%d %zu ", g.major, g.minor, g.bytes);
        for (int k = 0; k < CUDA_UUID; k++) str_addf(out, "%02x", g.uuid[k]);
        str_addf(out, " %s", g.name);
        end_entry(out, begin);
    }
}

static const char *
entry_at(const char *text, int i)
{
    for (; i > 0 && text; i--) {
        text = strchr(text, '|');
        if (text) text++;
    }
    return text;
}

static int
decimal_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads " UUID " and returns the position of the space after it; NULL: malformed. */
static const char *
read_uuid(const char *at, unsigned char uuid[CUDA_UUID])
{
    if (*at++ != ' ') return NULL;
    for (int k = 0; k < CUDA_UUID; k++, at += 2) {
        if (decimal_digit(at[0]) < 0 || decimal_digit(at[1]) < 0) return NULL;
        uuid[k] = (unsigned char)(decimal_digit(at[0]) << 4 | decimal_digit(at[1]));
    }
    return *at == ' ' ? at : NULL;
}

static bool
parse_gpu_entry(const char *at, struct cuda_gpu *out)
{
    const char *entry_end = strchr(at, '|');
    char *end;
    *out = (struct cuda_gpu){0};
    long major = strtol(at, &end, 10), minor = *end == '.' ? strtol(end + 1, &end, 10) : -1;
    unsigned long long bytes = *end == ' ' ? strtoull(end + 1, &end, 10) : 0;
    const char *name = read_uuid(end, out->uuid);
    if (!entry_end || !name || name >= entry_end || major < 0 || major > 99 || minor < 0 || minor > 99) return false;
    size_t n = (size_t)(entry_end - name - 1);
    if (n >= sizeof out->name || bytes > SIZE_MAX / 2) return false;
    out->major = (int)major;
    out->minor = (int)minor;
    out->bytes = (size_t)bytes;
    memcpy(out->name, name + 1, n);
    return true;
}

static int
count_gpus(const char *text)
{
    int n = 0;
    for (; *text; text++) n += *text == '|';
    return n > 0 ? n - 1 : 0;
}

static int
by_uuid(const void *a, const void *b)
{
    return memcmp(a, b, CUDA_UUID);
}

/* Returns the sorted uuids of the GPUs in a text; the caller frees them. */
static unsigned char *
list_uuids(const char *text, size_t *n)
{
    struct cuda_gpu g;
    unsigned char *uuid = must_alloc((size_t)count_gpus(text) * CUDA_UUID + 1);
    *n = 0;
    for (const char *at = entry_at(text, 1); at && parse_gpu_entry(at, &g); at = entry_at(at, 1))
        memcpy(uuid + CUDA_UUID * (*n)++, g.uuid, CUDA_UUID);
    qsort(uuid, *n, CUDA_UUID, by_uuid);
    return uuid;
}

bool
gpus_share(const char *text, const char *other)
{
    size_t n, m;
    unsigned char *uuid = list_uuids(text, &n), *in = list_uuids(other, &m);
    bool shared = false;
    for (size_t i = 0; i < n && !shared; i++) shared = bsearch(uuid + CUDA_UUID * i, in, m, CUDA_UUID, by_uuid) != NULL;
    free(uuid);
    free(in);
    return shared;
}

int
gpus_check(const char *text, int n)
{
    struct cuda_gpu g;
    const char *at = entry_at(text, 1);
    bool good = n == 0 ? !*text : at != NULL;
    for (int i = 0; good && i < n; i++, at = entry_at(at, 1)) good = at && parse_gpu_entry(at, &g);
    return good && (n == 0 || (at && !*at)) ? 0 : fail(E_BUS, "malformed description of %d GPUs", n);
}

void
gpus_read(const char *text, int i, struct cuda_gpu *out, struct str *kernels)
{
    str_addn(kernels, text, strcspn(text, "|"));
    parse_gpu_entry(entry_at(text, 1 + i), out);
}
