// Elementary functions on vectors of floats.
#ifndef KW_MATH_H
#define KW_MATH_H

#include "kw/vec.h"

namespace kw {

// 2^f for |f| <= 0.5: minimax polynomials. Relative error 2.7e-6 at degree 4, for 16-bit results; 1.6e-8 at
// degree 6, for floats.
template <class T>
static inline vf exp2_fraction(vf f) {
  if constexpr (sizeof(T) == 2) {
    vf p = splat(0x1.3997d6p-7f);
    p = fma(p, f, splat(0x1.ca1444p-5f));
    p = fma(p, f, splat(0x1.ec06dap-3f));
    p = fma(p, f, splat(0x1.62e0dcp-1f));
    return fma(p, f, splat(0x1.ffffe8p-1f));
  } else {
    vf p = splat(0x1.41d334p-13f);
    p = fma(p, f, splat(0x1.5f456ap-10f));
    p = fma(p, f, splat(0x1.3b2dbcp-7f));
    p = fma(p, f, splat(0x1.c6aed4p-5f));
    p = fma(p, f, splat(0x1.ebfbdap-3f));
    p = fma(p, f, splat(0x1.62e430p-1f));
    return fma(p, f, splat(1.0f));
  }
}

// e^(kSign · x) for an exponent in -87.3 … 89 or NaN, as accurate as results of type T show; inf from 88.73
// on. x · log2(e) is split into an integer, which becomes the exponent, and a fraction, which one fused
// multiply-add gives exactly but for the rounding of log2(e); floats get its next bits as well.
template <class T, int kSign>
static inline vf exp_in_range(vf x) {
  const vf log2e = splat(kSign * 0x1.715476p+0f);
  const vf shift = splat(0x1.8p+23f);  // adding it rounds to an integer and keeps that in the low bits
  const vf shifted = fma(x, log2e, shift);
  const vf n = shifted - shift;
  vf f = fma(x, log2e, -n);
  if constexpr (sizeof(T) == 4) f = fma(x, splat(kSign * 0x1.4ae0c0p-26f), f);
  const vf p = exp2_fraction<T>(f);
#if defined(KW_AVX512)
  return _mm512_scalef_ps(p, n);
#else
  return p * (vf)((as_uint(shifted) << 23) + (127u << 23));  // a product, so that NaN stays NaN
#endif
}

// e^x for x <= 0 or NaN; below -87.3 it stays at e^-87.3, which no sum with an e^0 in it shows.
template <class T>
static inline vf exp_negative(vf x) {
  return exp_in_range<T, 1>(maximum(splat(-87.3f), x));
}

// 1 / (1 + e^-x).
template <class T>
static inline vf sigmoid(vf x) {
  const vf denominator = exp_in_range<T, -1>(minimum(splat(87.3f), maximum(splat(-89.0f), x))) + 1.0f;
#if defined(KW_AVX512)
  if constexpr (sizeof(T) == 2) {
    // 14 bits, where bf16 keeps 8 and f16 11. 1/inf is 0 here, as the division gives.
    return _mm512_rcp14_ps(denominator);
  }
#endif
  return 1.0f / denominator;
}

}  // namespace kw

#endif  // KW_MATH_H
