/* cudnn_facts.cpp - compiles only if kernels/cuda/plugin/cudnn_abi.h agrees with cuDNN's headers. */
#include <cudnn.h>

#include "kernels/cuda/plugin/cudnn_abi.h"

#include <type_traits>

#define FACT(name, value) static_assert(CUDNN_##name == value, #name);
#include "kernels/cuda/plugin/cudnn.def"
#undef FACT

/* size of a type, bytes; two types are alike in the ABI if they have one size, and both or neither are pointers */
template <class T> constexpr size_t width = sizeof(T);
template <> constexpr size_t width<void> = 0;
template <class A, class B>
constexpr bool alike = width<A> == width<B> &&std::is_pointer<A>::value == std::is_pointer<B>::value;

template <class F, class G> constexpr bool same = false;
template <class R, class... A, class S, class... B>
constexpr bool same<R(A...), S(B...)> = alike<R, S> && (... && alike<A, B>);

#define CHECK(name, result, arguments) static_assert(same<decltype(name), name##_fn>, #name);
CUDNN_CALLS(CHECK)
