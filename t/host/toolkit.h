/* toolkit.h - functions that the stand-ins of CUDA libraries share; toolkit.c defines them. */
#ifndef RILLE_T_HOST_TOOLKIT_H
#define RILLE_T_HOST_TOOLKIT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool fake_is_said(const char *word); /* Returns true if FAKE_CUDA contains the word. */
void fake_log(const char *format, ...);
int fake_current(void); /* Returns the index of the thread's GPU. */
/* Writes the UUID of GPU `gpu` of this host. */
static inline void
fake_uuid(int gpu, cudaUUID_t *out)
{
    const int32_t word[] = {0x464b45, gpu, fake_is_said("each") ? (int32_t)getpid() : 0, 0};
    memcpy(out, word, sizeof *out);
}
/* Enqueues host code on the thread's stream, with a copy of these bytes as its argument. The code runs when a thread
 * waits for the stream. */
cudaError_t fake_put_off(cudaError_t (*run)(void *of), const void *of, size_t bytes);

#endif
