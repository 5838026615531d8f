/* toolkit.h - what the stand-ins of CUDA's libraries share: toolkit.c has it. */
#ifndef RILLE_T_HOST_TOOLKIT_H
#define RILLE_T_HOST_TOOLKIT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

bool fake_is_said(const char *word); /* by FAKE_CUDA */
void fake_log(const char *format, ...);
int fake_current(void); /* the thread's GPU */
/* Puts host code on the stream of this thread, with a copy of these bytes: it runs when the thread waits for that. */
cudaError_t fake_put_off(cudaError_t (*run)(void *of), const void *of, size_t bytes);

#endif
