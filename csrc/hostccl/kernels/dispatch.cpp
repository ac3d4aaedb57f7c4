// Chooses the vector width once and forwards to its table. Any thread. Must not know: how a kernel works.
#include <atomic>
#include <cstdlib>
#include <cstring>
#if defined(HOSTCCL_WIDE_KERNELS)
#include <cpuid.h>
#endif

#include "kernels.h"
#include "table.h"

namespace hostccl {
namespace {

#if defined(HOSTCCL_WIDE_KERNELS)
// No compiler builtin that all compilers have knows F16C.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

bool runs_avx2() { return __builtin_cpu_supports("avx2") && has_f16c(); }

bool runs_avx512() {
  return runs_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif

// Widest first. Null where this machine cannot run it.
const KernelTable* find(const char* name) {
  const auto wanted = [name](const KernelTable& table) { return !name || std::strcmp(name, table.name) == 0; };
#if defined(HOSTCCL_WIDE_KERNELS)
  if (runs_avx512() && wanted(avx512_table())) return &avx512_table();
  if (runs_avx2() && wanted(avx2_table())) return &avx2_table();
#endif
  return wanted(baseline_table()) ? &baseline_table() : nullptr;
}

std::atomic<const KernelTable*> chosen{nullptr};

const KernelTable& table() {
  const KernelTable* current = chosen.load(std::memory_order_relaxed);
  if (!current) {
    // Does nothing if set_vector_width came first; two racing threads find the same table.
    const KernelTable* widest = find(nullptr);
    if (chosen.compare_exchange_strong(current, widest, std::memory_order_relaxed)) current = widest;
  }
  return *current;
}

}  // namespace

void reduce(const ReduceArgs& args) {
  if (!supports(args.type, args.reduction) || args.ninputs < 1) std::abort();  // the caller's bug: never a wrong result
  table().reduce(args);
}

void copy(void* out, const void* in, size_t bytes) {
  if (bytes == 0) return;
  table().copy(static_cast<char*>(out), static_cast<const char*>(in), bytes);
}

void copy_streaming(void* out, const void* in, size_t bytes) {
  if (bytes == 0) return;
  table().copy_streaming(static_cast<char*>(out), static_cast<const char*>(in), bytes);
}

const char* vector_width() { return table().name; }

bool set_vector_width(const char* name) {
  const KernelTable* found = name ? find(name) : nullptr;
  if (!found) return false;
  chosen.store(found, std::memory_order_relaxed);
  return true;
}

}  // namespace hostccl
