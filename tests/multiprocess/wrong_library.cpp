// A shared object that says of itself what WRONG_FORMAT and WRONG_TORCH tell, for tests of what a program says to it.
// Built by the layout alone, as a library of another version would be.
#include <cstddef>

#ifdef WRONG_HEADER
#include WRONG_HEADER
#endif

struct Library {
  int format;
  std::size_t options_bytes;
  const char* torch;
  const void* models;
  std::size_t count;
};

extern "C" const Library* muster_user_models() {
  static const Library library{WRONG_FORMAT, WRONG_BYTES, WRONG_TORCH, nullptr, 0};
  return &library;
}
