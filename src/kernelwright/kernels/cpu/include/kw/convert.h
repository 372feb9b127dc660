// Native registers and pairs of float vectors: how each element type widens and narrows in each tier.
//
// A unit is what `load` takes at once: two registers of float, or one of a 16-bit type.
// bf16 rounds to nearest even and keeps NaN quiet; f16 as F16C does.
#ifndef KW_CONVERT_H
#define KW_CONVERT_H

namespace kw {

template <class T>
struct Unit {  // 16-bit types: one native register
  vi reg;
};
template <>
struct Unit<float> {
  vf low, high;
};

static inline Unit<float> load_unit(const float *from) {
  Unit<float> unit;
  memcpy(&unit.low, from, sizeof(vf));
  memcpy(&unit.high, from + kLanes, sizeof(vf));
  return unit;
}
static inline void store_unit(float *to, Unit<float> unit) {
  memcpy(to, &unit.low, sizeof(vf));
  memcpy(to + kLanes, &unit.high, sizeof(vf));
}
template <class T>
static inline Unit<T> load_unit(const T *from) {
  Unit<T> unit;
  memcpy(&unit.reg, from, sizeof(vi));
  return unit;
}
template <class T>
static inline void store_unit(T *to, Unit<T> unit) {
  memcpy(to, &unit.reg, sizeof(vi));
}

static inline void stream_register(void *to, vi value) {
#if defined(KW_AVX512)
  _mm512_stream_si512((__m512i *)to, (__m512i)value);
#elif defined(KW_AVX2)
  _mm256_stream_si256((__m256i *)to, (__m256i)value);
#elif defined(__SSE2__)
  _mm_stream_si128((__m128i *)to, (__m128i)value);
#else
  memcpy(to, &value, sizeof value);
#endif
}
static inline void stream_unit(float *to, Unit<float> unit) {
  stream_register(to, (vi)unit.low);
  stream_register(to + kLanes, (vi)unit.high);
}
template <class T>
static inline void stream_unit(T *to, Unit<T> unit) {
  stream_register(to, unit.reg);
}

#if defined(KW_AVX512)
static inline Unit<float> load_unit_part(const float *from, int count, float fill) {
  const uint32_t mask = (1u << count) - 1u;  // count < 32
  Unit<float> unit;
  unit.low = _mm512_mask_loadu_ps(splat(fill), (__mmask16)mask, from);
  unit.high = _mm512_mask_loadu_ps(splat(fill), (__mmask16)(mask >> 16), from + kLanes);
  return unit;
}
static inline void store_unit_part(float *to, Unit<float> unit, int count) {
  const uint32_t mask = (1u << count) - 1u;
  _mm512_mask_storeu_ps(to, (__mmask16)mask, unit.low);
  _mm512_mask_storeu_ps(to + kLanes, (__mmask16)(mask >> 16), unit.high);
}
template <class T>
static inline Unit<T> load_unit_part(const T *from, int count, T fill) {
  const __mmask32 mask = (1u << count) - 1u;
  return Unit<T>{(vi)_mm512_mask_loadu_epi16(_mm512_set1_epi16((short)fill.bits), mask, from)};
}
template <class T>
static inline void store_unit_part(T *to, Unit<T> unit, int count) {
  _mm512_mask_storeu_epi16(to, (__mmask32)((1u << count) - 1u), (__m512i)unit.reg);
}
#else
template <class T>
static inline Unit<T> load_unit_part(const T *from, int count, T fill) {
  T buffer[kStep];
  for (int lane = 0; lane < kStep; ++lane) buffer[lane] = fill;
  memcpy(buffer, from, (size_t)count * sizeof(T));
  return load_unit((const T *)buffer);
}
template <class T>
static inline void store_unit_part(T *to, Unit<T> unit, int count) {
  T buffer[kStep];
  store_unit((T *)buffer, unit);
  memcpy(to, buffer, (size_t)count * sizeof(T));
}
#endif

template <class T>
static inline Pair split(Unit<T> unit);
template <class T>
static inline Unit<T> join(Pair pair);

template <>
inline Pair split<float>(Unit<float> unit) {
  return Pair{unit.low, unit.high};
}
template <>
inline Unit<float> join<float>(Pair pair) {
  return Unit<float>{pair.a, pair.b};
}

// bf16 is the upper half of a float, so even and odd elements widen in place, with no move across lanes.
template <>
inline Pair split<bf16>(Unit<bf16> unit) {
  const vu words = (vu)unit.reg;
  return Pair{as_float(words << 16), as_float(words & 0xffff0000u)};
}

// Round to nearest even into the upper 16 bits; the lower ones are rubbish.
static inline vu round_bf16(vf v) {
  const vu bits = as_uint(v);
  const vu rounded = bits + ((bits >> 16 & 1u) + 0x7fffu);
#if defined(KW_AVX512)
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return (vu)_mm512_mask_or_epi32((__m512i)rounded, nan, (__m512i)bits, _mm512_set1_epi32(0x400000));
#else
  const vu nan = (vu)(v != v);
  return (rounded & ~nan) | ((bits | 0x400000u) & nan);
#endif
}
template <>
inline Unit<bf16> join<bf16>(Pair pair) {
#if defined(KW_AVX512) && defined(__AVX512BF16__)
  // cvtne2ps gives odd elements above even ones; one permutation of words interleaves them again.
  const __m512bh packed = _mm512_cvtne2ps_pbh(pair.b, pair.a);
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return Unit<bf16>{(vi)_mm512_permutexvar_epi16(order, (__m512i)packed)};
#else
  return Unit<bf16>{(vi)((round_bf16(pair.a) >> 16) | (round_bf16(pair.b) & 0xffff0000u))};
#endif
}

#if defined(KW_AVX512)
template <>
inline Pair split<f16>(Unit<f16> unit) {
  return Pair{_mm512_cvtph_ps(_mm512_castsi512_si256((__m512i)unit.reg)),
              _mm512_cvtph_ps(_mm512_extracti64x4_epi64((__m512i)unit.reg, 1))};
}
template <>
inline Unit<f16> join<f16>(Pair pair) {
  const __m256i low = _mm512_cvtps_ph(pair.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256i high = _mm512_cvtps_ph(pair.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return Unit<f16>{(vi)_mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)};
}
#elif defined(KW_AVX2)
template <>
inline Pair split<f16>(Unit<f16> unit) {
  return Pair{_mm256_cvtph_ps(_mm256_castsi256_si128((__m256i)unit.reg)),
              _mm256_cvtph_ps(_mm256_extracti128_si256((__m256i)unit.reg, 1))};
}
template <>
inline Unit<f16> join<f16>(Pair pair) {
  const __m128i low = _mm256_cvtps_ph(pair.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m128i high = _mm256_cvtps_ph(pair.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  return Unit<f16>{(vi)_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1)};
}
#else
static inline vu choose(vu mask, vu yes, vu no) { return (yes & mask) | (no & ~mask); }

// Binary16 without F16C: the exponent is rebased with integers, subnormals through one float subtraction.
static inline vf widen_f16(vu half) {
  const vu magnitude = (half & 0x7fffu) << 13;
  const vu exponent = magnitude & (0x7c00u << 13);
  const vu normal = magnitude + (112u << 23);
  const vu special = normal + (112u << 23);
  const vf subnormal = as_float(normal + (1u << 23)) - as_float((vu){} + (113u << 23));
  const vu finite = choose((vu)(exponent == 0u), as_uint(subnormal), normal);
  const vu bits = choose((vu)(exponent == (0x7c00u << 13)), special, finite);
  return as_float(bits | (half & 0x8000u) << 16);
}
static inline vu narrow_f16(vf v) {
  const vu bits = as_uint(v);
  const vu sign = bits & 0x80000000u;
  const vu magnitude = bits ^ sign;
  const vu denormal_magic =
      (vu){} + (126u << 23);  // 0.5: adding it leaves the half's mantissa in the low bits
  const vu subnormal = as_uint(as_float(magnitude) + as_float(denormal_magic)) - denormal_magic;
  const vu normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  const vu nan = 0x7e00u | (magnitude >> 13 & 0x1ffu);
  const vu special = choose((vu)(magnitude > (255u << 23)), nan, (vu){} + 0x7c00u);
  vu half = choose((vu)(magnitude < (113u << 23)), subnormal, normal);
  half = choose((vu)(magnitude >= (143u << 23)), special, half);
  return half | sign >> 16;
}
template <>
inline Pair split<f16>(Unit<f16> unit) {
  const vu words = (vu)unit.reg;
  return Pair{widen_f16(words & 0xffffu), widen_f16(words >> 16)};
}
template <>
inline Unit<f16> join<f16>(Pair pair) {
  return Unit<f16>{(vi)(narrow_f16(pair.a) | narrow_f16(pair.b) << 16)};
}
#endif

}  // namespace kw

#endif  // KW_CONVERT_H
