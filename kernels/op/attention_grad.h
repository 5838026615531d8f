/* attention_grad.h - gradients of attention with respect to q, k and v. Pure; any thread. */
#ifndef RILLE_KERNELS_OP_ATTENTION_GRAD_H
#define RILLE_KERNELS_OP_ATTENTION_GRAD_H

struct attr;
struct build;
struct val;

/* Builds the gradients dq, dk and dv, which have the batch dimensions of the scores, and for each query the gradient
 * of the sink of its head. out: the result of attention. */
void b_attention_grad(struct build *b, struct val *const *in, struct val *dout, struct val *out,
                      const struct attr *attr, struct val **grad);

#endif
