#include "nccl2/c10d/host_engine.h"

#include <c10/util/Exception.h>

#include "nccl2/c10d/python_hooks.h"
#include "nccl2/driver/host_runtime.h"

namespace pycomms::c10d_backend {
namespace {

const Engine& load(const std::string& path) {
  Result<const Engine*> engine = load_engine(path);
  TORCH_CHECK(engine.is_ok(), "pycomms: ", engine.status().message());
  TORCH_CHECK(engine.value()->is_host(), "pycomms: ", path, " is not libhostccl.so");
  engine.value()->host.set_interrupt_hook([] { return interrupted() ? 1 : 0; });
  return *engine.value();
}

}  // namespace

HostEngine host_engine(const std::string& path) {
  static const Engine& engine = load(path);
  static auto& runtime = *new HostRuntime(engine);  // streams may outlive static destruction
  return {engine, runtime};
}

}  // namespace pycomms::c10d_backend
