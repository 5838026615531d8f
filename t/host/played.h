/* played.h - runs GPU kernels on the host, for stand-ins of CUDA. c++ compiles a kernel's text with t/host/shim.h
 * into a shared library, and a launch runs the threads one by one. SHIM names the source folder. */
#ifndef RILLE_T_HOST_PLAYED_H
#define RILLE_T_HOST_PLAYED_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Returns the content of a file, on the heap. */
static void *
played_content(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f);
    rewind(f);
    void *p = malloc(*bytes);
    if (fread(p, 1, *bytes, f) != *bytes) *bytes = 0;
    fclose(f);
    return p;
}

/* Compiles a text into *binary, which is on the heap. Returns NULL, or an error. */
static const char *
played_compile(const char *text, const char *name, void **binary, size_t *bytes)
{
    char dir[] = "/tmp/rille-gpus-XXXXXX", path[64], line[512];
    if (!mkdtemp(dir)) return "no folder";
    snprintf(path, sizeof path, "%s/k.cpp", dir);
    FILE *f = fopen(path, "w");
    fprintf(f, "#include \"t/host/shim.h\"\n%s\nSHIM_KERNEL(%s)\n", text, name);
    fclose(f);
    snprintf(line, sizeof line, "c++ -w -std=c++17 -O0 -ffp-contract=off -shared -fPIC -I" SHIM " -o %s/k.so %s >&2",
             dir, path);
    int status = system(line);
    snprintf(path, sizeof path, "%s/k.so", dir);
    *binary = played_content(path, bytes);
    snprintf(line, sizeof line, "rm -rf %s", dir);
    return status || system(line) || !*binary ? "c++ failed" : NULL;
}

static void *
played_load(const void *binary, size_t bytes)
{
    char path[] = "/tmp/rille-gpus-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, binary, bytes) != (ssize_t)bytes || close(fd)) return NULL;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    return library;
}

/* Returns the entry function of a kernel. The function's arguments are the kernel's argument, the number of
 * blocks, the threads per block, and the seed of the thread order. */
static void *
played_kernel(void *library, const char *name)
{
    char entry[128];
    snprintf(entry, sizeof entry, "run_%s", name);
    return dlsym(library, entry);
}

#endif
