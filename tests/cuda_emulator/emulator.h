// What the emulator offers beyond CUDA: to a libnccl stand-in, to the ATen fallback, and to tests. Plain C.
//
// All of it is exported by the emulated libcudart.so.13, which is loaded with RTLD_GLOBAL: link nothing, find the functions
// with dlsym(RTLD_DEFAULT, "cuemu_…"), and take the absence of cuemu_bytes to mean a real CUDA. `stream` is a cudaStream_t;
// the functions that return int return a cudaError_t, and may be called from any thread.
//
// Reaching device memory. A pointer from cudaMalloc may be dereferenced by nobody, but the same bytes are mapped a second
// time: cuemu_bytes(pointer) is where. It may be used
//   * by device work: a host function (cudaLaunchHostFunc, cuemu_launch), which runs on the thread of its stream, in order;
//   * by any thread that such work waits for, as long as the work has not returned.
// Anywhere else it would be the race that the emulator exists to show. Pinned and pageable host pointers come back as they are.
// The address stays good until cudaFree. cuemu_check tells whether a range lies in one live allocation.
//
// Work that may be captured. cudaLaunchHostFunc knows nothing about the life of its argument: under capture the graph runs
// the function again with each launch. Either use cuemu_launch, whose `destroy` is called once when neither a stream nor a
// graph can run the work any more, or do as NCCL does: cudaUserObjectCreate and cudaGraphRetainUserObject on the graph that
// cudaStreamGetCaptureInfo gives.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- memory
void* cuemu_bytes(const void* pointer);
int cuemu_device_of(const void* pointer);  // -1: not device memory
int cuemu_check(const void* pointer, size_t bytes);

// --- work
// Queues run(arg) on the stream, or captures it. A result other than 0 becomes the sticky error of the device, with the text
// that cuemu_explain left. `what` is copied. When cuemu_launch itself fails neither run nor destroy is ever called.
int cuemu_launch(void* stream, const char* what, int (*run)(void* arg), void (*destroy)(void* arg), void* arg);
void cuemu_explain(const char* text);  // from within run, of this thread

// --- controls, for tests
void cuemu_set_delays(uint64_t fixed_us, uint64_t random_us, uint64_t seed);  // before each piece of work
// Of the calls of a function, `skip` pass and the `times` after them fail; with error 0 they claim success and do nothing.
// 1: no such function.
int cuemu_inject(const char* function, int error, uint64_t skip, uint64_t times);
// The same for the pieces of work that the streams of a device run; the failure is sticky.
int cuemu_inject_work(int device, int error, uint64_t skip, uint64_t times);
int cuemu_fail_device(int device, int error, const char* text);  // now
int cuemu_heal_device(int device);                               // forgets a sticky error: what no real device can
void cuemu_clear_faults(void);                                   // all plans that have not struck yet
uint64_t cuemu_calls(const char* function);
void cuemu_reset_calls(void);
void cuemu_each_call(void (*visit)(const char* function, uint64_t calls, void* arg), void* arg);
uint64_t cuemu_work_count(int device);  // pieces of work that its streams have begun
int cuemu_hold(void* stream);           // the stream begins no more work until it is released
int cuemu_release(void* stream);
int cuemu_has_context(int device);
// Handles that the program has not destroyed.
struct cuemu_live {
  size_t streams, events, graphs, graph_execs, user_objects, pools;
  size_t device_bytes;
};
void cuemu_count_live(struct cuemu_live* live);
// What the stubs call. The driver's functions leave the runtime's last error alone.
int cuemu_unsupported(const char* function);
int cuemu_unsupported_driver(const char* function);

#ifdef __cplusplus
}
#endif
