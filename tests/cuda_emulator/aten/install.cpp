extern "C" __attribute__((visibility("default"))) const char* cuemu_install_aten() { return nullptr; }
