#include "nccl2/driver/nccl_api.h"

#include <dlfcn.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <set>

#include "nccl2/driver/nccl_composed.h"

namespace pycomms {
namespace {

template <typename Function>
void look_up(void* library, const char* symbol, Function& member) {
  member = reinterpret_cast<Function>(dlsym(library, symbol));
}

std::string first_missing(const NcclApi& api) {
#define PYCOMMS_CHECK(member, symbol, result, parameters) \
  if (api.member == nullptr) return #symbol;
  PYCOMMS_NCCL_FUNCTIONS(PYCOMMS_CHECK)
#undef PYCOMMS_CHECK
  return {};
}

constexpr const char* kNcclName = "libnccl.so.2";
constexpr int kOldestNccl = 21800;  // nonblocking communicators and split

// Files of that name which are mapped into this process.
std::set<std::string> mapped_copies(const std::string& name) {
  std::set<std::string> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t path = line.find('/');
    if (path == std::string::npos) continue;
    const std::string file = line.substr(path);
    if (file.find('/' + name) != std::string::npos) found.insert(file);
  }
  return found;
}

Result<const Engine*> look_up_nccl() {
  void* library = dlopen(kNcclName, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return Status(Code::kSystem, "no libnccl is loaded: this torch is built without NCCL");
  if (const auto copies = mapped_copies(kNcclName); copies.size() > 1) {
    return Status(Code::kSystem, "two different copies of libnccl are loaded, " + *copies.begin() + " and " +
                                     *std::next(copies.begin()) +
                                     ": communicators of one cannot be used with the other");
  }
  auto engine = std::make_unique<Engine>();
  engine->path = kNcclName;
#define PYCOMMS_LOOK_UP(member, symbol, result, parameters) look_up(library, #symbol, engine->nccl.member);
  PYCOMMS_NCCL_FUNCTIONS(PYCOMMS_LOOK_UP)
  PYCOMMS_NCCL_NEWER_FUNCTIONS(PYCOMMS_LOOK_UP)
#undef PYCOMMS_LOOK_UP
  if (engine->nccl.get_version == nullptr || engine->nccl.get_version(&engine->version) != nccl_abi::kSuccess) {
    return Status(Code::kSystem, "libnccl does not tell its version");
  }
  if (engine->version < kOldestNccl) {
    return Status(Code::kSystem, "libnccl has version " + std::to_string(engine->version) + ", at least " +
                                     std::to_string(kOldestNccl) + " is needed");
  }
  compose_missing(*engine);
  if (const std::string missing = first_missing(engine->nccl); !missing.empty()) {
    return Status(Code::kSystem, "libnccl does not export " + missing);
  }
  return engine.release();
}

}  // namespace

Result<const Engine*> loaded_nccl() {
  static Result<const Engine*> engine = look_up_nccl();
  return engine.is_ok() ? Result<const Engine*>(engine.value()) : Result<const Engine*>(engine.status());
}

Result<const Engine*> load_engine(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Status(Code::kSystem, "cannot load the engine: " + std::string(dlerror()));

  auto engine = std::make_unique<Engine>();
  engine->path = path;
#define PYCOMMS_LOOK_UP(member, symbol, result, parameters) look_up(library, #symbol, engine->nccl.member);
  PYCOMMS_NCCL_FUNCTIONS(PYCOMMS_LOOK_UP)
  PYCOMMS_NCCL_NEWER_FUNCTIONS(PYCOMMS_LOOK_UP)
#undef PYCOMMS_LOOK_UP
#define PYCOMMS_LOOK_UP(member, symbol, result, parameters) look_up(library, #symbol, engine->host.member);
  PYCOMMS_HOSTCCL_FUNCTIONS(PYCOMMS_LOOK_UP)
#undef PYCOMMS_LOOK_UP
#define PYCOMMS_LOOK_UP(member, symbol, result, parameters) look_up(library, #symbol, engine->windows.member);
  PYCOMMS_HOSTCCL_WINDOW_FUNCTIONS(PYCOMMS_LOOK_UP)
#undef PYCOMMS_LOOK_UP

  if (const std::string missing = first_missing(engine->nccl); !missing.empty()) {
    return Status(Code::kSystem, path + " does not export " + missing);
  }
  if (engine->nccl.get_version(&engine->version) != nccl_abi::kSuccess) {
    return Status(Code::kSystem, path + " does not tell its version");
  }
  return engine.release();
}

}  // namespace pycomms
