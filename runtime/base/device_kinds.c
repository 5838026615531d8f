/* device_kinds.c - the names of device kinds. */
#include "runtime/base/device_kinds.h"

#include "runtime/base/error.h"

#include <assert.h>
#include <string.h>

static const char *const names[NDEVICE_KIND] = {
    [DEV_CPU] = "cpu", [DEV_META] = "meta", [DEV_ASYNC] = "async", [DEV_CUDA] = "cuda"};

const char *
device_kind_text(int kind)
{
    assert(kind >= 0 && kind < NDEVICE_KIND);
    return names[kind];
}

int
device_kind_parse(const char *text)
{
    for (int k = 0; k < NDEVICE_KIND; k++)
        if (!strcmp(text, names[k])) return k;
    if (!strcmp(text, "late")) return DEV_ASYNC; /* former name of "async", until 0.2; the shell warns */
    if (strchr(text, ':'))
        fail(E_PLACE, "expected a device kind without a number, such as \"cpu\", found \"%s\"", text);
    else
        fail(E_PLACE, "unknown device kind \"%s\": expected cpu, meta or cuda%s", text,
             strcmp(text, "gpu") ? "" : "; a GPU is cuda");
    return -1;
}
