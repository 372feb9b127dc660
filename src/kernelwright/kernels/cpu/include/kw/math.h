// Elementary functions on vectors of floats.
#ifndef KW_MATH_H
#define KW_MATH_H

#include "kw/vec.h"

namespace kw {

// e^x, within 2 units in the last place; inf above 88.73, down to 0 below -103.98, NaN for NaN.
// Cody and Waite's reduction to |r| <= ln2 / 2, then a polynomial of degree 6 (Taylor's, economised: the
// coefficients of Cephes' expf), then a scaling by 2^n in two steps where there is no scalef, so that
// subnormal results come out right.
static inline vf exp(vf x) {
  x = minimum(splat(89.0f), x);
  x = maximum(splat(-105.0f), x);
  const vf t = x * 1.44269504088896341f;
#if defined(KW_AVX512)
  const vf n = _mm512_roundscale_ps(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
  const vf shift = splat(12582912.0f);  // 1.5 · 2^23: rounds to an integer, kept in the low bits
  const vf shifted = t + shift;
  const vf n = shifted - shift;
#endif
  vf r = fma(n, splat(-0.693359375f), x);
  r = fma(n, splat(2.12194440e-4f), r);
  vf p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r) + 1.0f;
#if defined(KW_AVX512)
  return _mm512_scalef_ps(p, n);
#else
  const vi exponent = (vi)(as_uint(shifted) - as_uint(shift));
  const vi half = exponent >> 1;
  const vf first = (vf)((half + 127) << 23);
  const vf second = (vf)((exponent - half + 127) << 23);
  return p * first * second;
#endif
}

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

// e^x for x <= 0 or NaN, as accurate as results of type T show, relative to e^0: the error of the reduced
// argument grows with |x|, where e^x is small. Down to 0 below about -87; no subnormal results.
template <class T>
static inline vf exp_negative(vf x) {
  constexpr float kLog2e = 1.44269504088896341f;
  x = maximum(splat(-87.3f), x);
  const vf shift = splat(12582912.0f);  // 1.5 · 2^23: rounds to an integer, kept in the low bits
  const vf shifted = fma(x, splat(kLog2e), shift);
  const vf n = shifted - shift;
  const vf p = exp2_fraction<T>(fma(x, splat(kLog2e), -n));
#if defined(KW_AVX512)
  return _mm512_scalef_ps(p, n);
#else
  return p * (vf)((as_uint(shifted) << 23) + (127u << 23));  // a product, so that NaN stays NaN
#endif
}

// 1 / (1 + e^-x), in the accuracy that results of type T can show.
template <class T>
static inline vf sigmoid(vf x) {
  const vf denominator = exp(-x) + 1.0f;
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
