/* loaded_check.h - checks the operators of libraries on their samples. One thread at a time. */
#ifndef RILLE_KERNELS_EXEC_LOADED_CHECK_H
#define RILLE_KERNELS_EXEC_LOADED_CHECK_H

#include "kernels/loaded/loaded.h"

/* Checks signatures, gradients and the fast kernel on all samples. Fails with E_ARG, E_SBP or E_KERNEL. */
int loaded_check(const struct loaded *l);

#endif
