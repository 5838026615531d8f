/* devices.c - parses and prints lists of devices, such as "cpu:8,cuda:2". */
#include "actors/cluster/wire/devices.h"

#include "runtime/base/error.h"

#include <stdlib.h>
#include <string.h>

enum { DEVICES_MOST = 4096 };

static int
parse_word(char *word, bool here, struct device_counts *out, bool first)
{
    char *colon = strchr(word, ':'), *end = NULL;
    long count = 1;
    if (colon) {
        *colon = '\0';
        count = strtol(colon + 1, &end, 10);
    }
    if (!strcmp(word, device_kind_text(DEV_CUDA))) {
        if (first) out->first = DEV_CUDA;
        TRY(cuda_parse(colon ? colon + 1 : "0", here, &out->gpus));
        out->n[DEV_CUDA] = out->gpus.n;
        return 0;
    }
    int kind = device_kind_parse(word);
    if (kind < 0) return err_last();
    if (first) out->first = kind;
    if (out->n[kind]) return fail(E_PLACE, "devices: \"%s\" is named twice", word);
    if (colon && (end == colon + 1 || *end || count < 1 || count > DEVICES_MOST))
        return fail(E_PLACE, "devices: the number of devices of \"%s\" must be from 1 to %d, found \"%s\"", word,
                    DEVICES_MOST, colon + 1);
    out->n[kind] = (int32_t)count;
    return 0;
}

int
device_counts_parse(const char *text, bool here, struct device_counts *out)
{
    *out = (struct device_counts){.first = DEV_CPU};
    for (const char *at = text; *at;) {
        size_t n = strcspn(at, ",");
        char word[64];
        if (n == 0 || n >= sizeof word)
            return fail(E_PLACE, "devices: expected kind:count, separated by commas, found \"%s\"", text);
        memcpy(word, at, n);
        word[n] = '\0';
        TRY(parse_word(word, here, out, at == text));
        at += n + (at[n] == ',');
    }
    return 0;
}

int
device_counts_of_worker(const char *text, bool here, struct device_counts *out)
{
    TRY(device_counts_parse(text, here, out));
    if (out->n[DEV_META]) return fail(E_PLACE, "devices: workers can have devices of kind cpu and cuda, not meta");
    return out->n[DEV_CPU]
               ? 0
               : fail(E_PLACE, "devices: a worker must have cpu devices, as in \"cpu:1\"; this list has none");
}

static bool
gpus_suit(const struct cuda_choice *wanted, const struct cuda_choice *c)
{
    bool suit = wanted->all ? c->n > 0 : wanted->n == c->n;
    for (int i = 0; i < c->n && suit; i++)
        suit = wanted->all ? c->device[i].parts == 1
                           : c->device[i].gpu == wanted->device[i].gpu && c->device[i].parts == wanted->device[i].parts;
    return suit;
}

bool
device_counts_suit(const struct device_counts *wanted, const struct device_counts *d)
{
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (k != DEV_CUDA && wanted->n[k] != d->n[k]) return false;
    return wanted->first == d->first && gpus_suit(&wanted->gpus, &d->gpus);
}

static void
print_gpus(const struct cuda_choice *c, struct str *out)
{
    if (c->all) str_addf(out, "%scuda:all", out->len ? "," : "");
    for (int i = 0; i < c->n; i += c->device[i].parts)
        str_addf(out, "%scuda:%dx%d", out->len ? "," : "", c->device[i].gpu, c->device[i].parts);
}

static void
print_kind(const struct device_counts *d, int kind, struct str *out)
{
    if (kind == DEV_CUDA)
        print_gpus(&d->gpus, out);
    else if (d->n[kind])
        str_addf(out, "%s%s:%d", out->len ? "," : "", device_kind_text(kind), (int)d->n[kind]);
}

void
device_counts_print(const struct device_counts *d, struct str *out)
{
    print_kind(d, d->first, out);
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (k != d->first) print_kind(d, k, out);
}
