// Kernels: their names are known, because each library registers them as it is loaded; their code is not run. Any thread.
#pragma once

#include <memory>

#include "stream.h"

namespace cuemu {

void register_kernel(const void* function, const char* name);  // name: mangled, lives for ever
const char* kernel_name(const void* function);
// Emulates the few kernels that it knows, and refuses the others by name with kNoKernelImage.
void launch_kernel(const void* function, void** arguments, const std::shared_ptr<Stream>& stream);

}  // namespace cuemu
