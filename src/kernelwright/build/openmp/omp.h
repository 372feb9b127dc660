// The OpenMP functions that kernels may call, for clang: its own header comes with a runtime that is not used
// here (see kmp_on_gomp.cpp). Every function is libgomp's.
#ifndef KW_OMP_H
#define KW_OMP_H

#ifdef __cplusplus
extern "C" {
#endif

int omp_get_level(void);
int omp_get_max_threads(void);
int omp_get_num_procs(void);
int omp_get_num_threads(void);
int omp_get_thread_limit(void);
int omp_get_thread_num(void);
int omp_in_parallel(void);
void omp_set_num_threads(int);
double omp_get_wtime(void);

#ifdef __cplusplus
}
#endif
#endif  // KW_OMP_H
