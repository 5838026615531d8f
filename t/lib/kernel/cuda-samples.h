/* cuda-samples.h - samples of operator calls for t/cuda/kernels.c, with larger sizes than the operators' own samples,
 * and functions that derive samples from others. */
#ifndef RILLE_T_CUDA_SAMPLES_H
#define RILLE_T_CUDA_SAMPLES_H

#include "t/lib/kernel/trial.h"

struct cuda_sample {
    const char *op, *text;
};

/* Samples with more elements than a thread group or a block has threads, and samples that fill a block only in
 * part. */
static const struct cuda_sample long_samples[] = {
    {"add", "f32{0,5} f32{5}"},
    {"add", "f32{3,1024} f32{1024}"},
    {"lt", "f32{7,1,5} bf16{1,9,5}"},
    {"cast", "f64{37} dtype=u8"},
    {"cast", "f64{37} dtype=bf16"},
    {"cast", "i64{37} dtype=f16"},
    {"cast", "f16{37} dtype=i32"},
    {"cast", "f32{37} dtype=bool"},
    {"sum", "f32{2500}"},
    {"sum", "f32{3,2500} axis=1"},
    {"sum", "bf16{3,1100} axis=0"},
    {"max", "f64{5,1027} axis=1 keepdim=1"},
    {"min", "i32{3,4,5,6} axis=0,2"},
    {"sum", "f32{600,70} axis=1"},
    {"sum", "f32{3,0} axis=1"},
    {"prod", "f32{300,20} axis=1"},
    {"any", "bool{300,20} axis=1"},
    {"sum", "f32{70000}"},
    {"sum", "bf16{3000,70} axis=0"},
    {"max", "f32{5,700,9} axis=1"},
    {"norm_grad", "f32{500,40} f32{500,40} f32{40}"},
    {"norm_grad", "bf16{300,600} bf16{300,600} -"},
    {"prod", "i64{66000} axis=0"},
    {"max", "bf16{66000,2} axis=0 keepdim=1"},
    {"attention", "f32{2,70,5} f32{2,300,5} f32{2,300,4} bool{1,300} is_causal=true scale=0.5"},
    {"attention", "f32{2,70,5} f32{2,300,5} f32{2,300,4} - f32{2} i64{70,2}<301 is_causal=true window=40,0 softcap=2"},
    {"attention_grad",
     "bf16{2,9,5} bf16{2,300,5} bf16{2,300,4} - f32{2} i64{2,1,2}<301 bf16{2,9,4} bf16{2,9,4} softcap=2"},
    {"attention_grad", "f32{2,9,5} f32{2,300,5} f32{2,300,4} - - - f32{2,9,4} f32{2,9,4} is_causal=true scale=0.5"},
    {"adamw", "f32{300,3} f32{300,3} f32{300,3} f32{300,3} #0.01 #3"},
    {"adamw", "f32{300,30} f32{300,30} f32{300,30} f32{300,30} #0.01 #3 f32{}"},
    {"sgd", "bf16{9000} f32{9000} bf16{9000} #0.01 momentum=0.9"},
    {"softmax", "f32{300,30}"},
    {"softmax", "f32{3,1000}"},
    {"reshape", "f32{4,6} shape=3,8"},
    {"transpose", "f32{3,5,7} axis0=0 axis1=2"},
    {"concat", "i64{3,2} f32{3,1} bool{3,2} axis=1"},
    {"index_add", "f32{300,70} i64{3,150}<300 f32{3,150,70} axis=0"},
    {"index_add", "f64{2,5,300} i64{40}<5 f64{2,40,300} axis=1"},
    {"index_add_to", "f32{300,70} i64{3,150}<300 f32{3,150,70} axis=0"},
    {"index_add_to", "f32{1100,130} i64{100}<1100 f32{100,130} axis=0"},
    {"index_add", "f32{1100,130} i64{100}<3 f32{100,130} axis=0"},
    {"index_add_to", "f64{2,5,300} i64{40}<5 f64{2,40,300} axis=1"},
    {"index_add_to", "f32{3,40} i64{2,700}<3 f32{2,700,40} axis=0"},
    {"index_add_to", "f32{90,140} i32{2,800}<40 f32{2,800,140} axis=0"},
    {"index_add", "bf16{130,4,9} i64{1500}<90 bf16{1500,4,9} axis=0"},
    {"attention_softmax", "f32{2,4,300} bool{4,1} scale=0.5 is_causal=true"},
    {"attention_softmax", "f32{2,4,300} - f32{2} i64{1,4,2}<301 scale=0.5 window=-1,200"},
    {"topk", "f32{300,20} k=3 axis=0"},
    {"topk", "bf16{300,20} k=5 largest=false"},
    {"layer_norm", "f32{300,64} f32{64} f32{64}"},
    {"layer_norm", "bf16{260,320} f32{320} f32{320}"},
    {"rms_norm", "f16{2,130,96} bf16{96}"},
    {"norm_grad", "bf16{520,64} bf16{520,64} f32{64}"},
    {"norm_grad", "f32{2,150,64} f32{2,150,64} -"},
    {"norm_grad", "f64{300,16} f64{300,16} f64{16}"},
    {"softmax", "f16{260,64}"},
    {"softmax_grad", "bf16{260,64} bf16{260,64}"},
    {"log_softmax", "f32{5,1000,8} axis=1"},
    {"cross_entropy_rows", "bf16{5,4104} i64{5}<4104"},
    {"cross_entropy_rows", "f32{3,5,700} i64{3,700}<5 label_smoothing=0.25"},
    {"cross_entropy_grad", "bf16{5,4104} i64{5}<4104 f32{5} f32{5} f32{5}"},
    {"adamw", "f32{300,32} f32{300,32} f32{300,32} f32{300,32} #0.01 #3 f32{}"},
    {"adamw", "bf16{5000} f32{5000} f32{5000} f32{5000} #0.01 #3"},
    {"sum", "bf16{1100,64} axis=0"},
    {"sum", "f32{2,300,32} axis=0,1"},
    {"sum", "f64{300,16} axis=0"},
    {"max", "i32{1100,8} axis=0"},
    {"max", "u8{260,32} axis=1"},
    {"prod", "f16{4,300,8} axis=1"},
    {"logsumexp", "f32{3,4096}"},
    {"argmax", "bf16{7,64}"},
    {"matmul", "f32{70,40} f32{40,67}"},
    {"matmul", "f32{2,66,0} f32{0,3}"},
    {"contract", "f32{3,11,70} f32{3,11,5}"},
    {"conv2d", "f32{2,4,9,8} f32{66,2,3,3} - padding=1 stride=2,1 groups=2"},
};

/* Samples for tensor cores. They have more rows than a block computes, sizes that are no multiple of a fragment,
 * masks, uneven sizes, sums in several parts, and windows that reach outside the image. */
static const struct cuda_sample warp_samples[] = {
    {"attention", "bf16{1,140,64} bf16{1,140,64} bf16{1,140,64} - is_causal=true scale=0.125"},
    {"attention", "f16{2,1,40,24} f16{1,2,140,24} f16{1,2,140,40} f32{40,140} scale=0.2"},
    {"attention", "bf16{1,70,128} bf16{1,140,128} bf16{1,140,128} bool{140} is_causal=true scale=0.1"},
    {"attention", "f16{140,7} f16{131,7} f16{131,3} - is_causal=true scale=0.4"},
    {"attention", "bf16{2,20,8} bf16{2,1,8} bf16{2,1,8} - is_causal=true"},
    {"attention", "bf16{2,9,144} bf16{2,20,144} bf16{2,20,8}"},
    {"attention_grad",
     "bf16{1,140,64} bf16{1,140,64} bf16{1,140,64} - - - bf16{1,140,64} bf16{1,140,64} is_causal=true scale=0.125"},
    {"attention_grad",
     "f16{2,1,40,24} f16{1,2,140,24} f16{1,2,140,40} f32{40,140} - - f16{2,2,40,40} f16{2,2,40,40} scale=0.2"},
    {"attention_grad", "bf16{1,70,128} bf16{1,140,128} bf16{1,140,128} bool{140} - - bf16{1,70,128} bf16{1,70,128} "
                       "is_causal=true scale=0.1"},
    {"attention_grad", "f16{140,7} f16{131,7} f16{131,3} - - - f16{140,3} f16{140,3} is_causal=true scale=0.4"},
    {"matmul", "bf16{70,40} bf16{40,67}"},
    {"matmul", "f16{1,3,66,1100} f16{2,1,1100,5}"},
    {"contract", "bf16{3,611,70} bf16{3,611,9}"},
    {"linear_int8", "bf16{67,70} u8{65,70} f32{65}"},
    {"conv2d", "bf16{2,9,9,8} bf16{66,9,3,3} - padding=1"},
    {"conv2d", "f16{2,4,9,8} f16{66,2,3,3} - padding=2 stride=2,1 dilation=1,2 groups=2"},
    {"conv2d", "bf16{1,130,5,4} bf16{5,130,3,3} - padding=1"},
    {"conv2d_grad_x", "bf16{2,66,9,8} bf16{66,9,3,3} padding=1 size=9,8"},
    {"conv2d_grad_x", "f16{2,66,5,8} f16{66,2,3,3} padding=2 stride=2,1 dilation=1,2 groups=2 size=9,8"},
    {"conv2d_grad_w", "bf16{9,4,13,12} bf16{9,66,13,12} padding=1 size=3,3"},
    {"conv2d_grad_w", "f16{2,4,9,8} f16{2,66,6,8} padding=2 stride=2,1 dilation=1,2 groups=2 size=3,3"},
    {"conv2d_grad_w", "f32{9,4,13,12} f32{9,66,13,12} padding=1 size=3,3"},
};

/* Replaces all sizes and index bounds of a sample by 4, because some defects of kernels show only if dimensions have
 * equal sizes. */
static inline void
square(const char *text, char *to, size_t capacity)
{
    size_t n = 0;
    for (char mark = 0; *text && n + 2 < capacity; text++) {
        bool size = (*text >= '0' && *text <= '9') && (mark == '{' || mark == '<');
        if (*text == '{' || *text == '<' || *text == '}' || *text == ' ') mark = *text;
        if (!size)
            to[n++] = *text;
        else if (to[n - 1] != '4')
            to[n++] = '4';
    }
    to[n] = '\0';
}

#endif
