/* toolkit.h - what the stand-ins of CUDA's libraries share: toolkit.c has it. */
#ifndef RILLE_T_HOST_TOOLKIT_H
#define RILLE_T_HOST_TOOLKIT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool fake_is_said(const char *word); /* by FAKE_CUDA */
void fake_log(const char *format, ...);
int fake_current(void); /* the thread's GPU */
/* What tells GPU number `gpu` of the host apart from all others. */
static inline void
fake_uuid(int gpu, cudaUUID_t *out)
{
    const int32_t word[] = {0x464b45, gpu, fake_is_said("each") ? (int32_t)getpid() : 0, 0};
    memcpy(out, word, sizeof *out);
}
/* Puts host code on the stream of this thread, with a copy of these bytes: it runs when the thread waits for that. */
cudaError_t fake_put_off(cudaError_t (*run)(void *of), const void *of, size_t bytes);

#endif
