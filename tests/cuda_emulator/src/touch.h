// Says what happened when host code touches device memory, just before the process dies of it.
#pragma once

namespace cuemu {

// Once; keeps whatever SIGSEGV handler there is, which runs next.
void explain_host_access();

}  // namespace cuemu
