// How the address sanitizer runs in fuzz targets: part of each. Freed memory is kept from use for 4 MB instead of 256,
// so that runs meet warm pages, which are not given back to the system either, and allocations remember one caller
// instead of 30. These are most of the time of a target that allocates much; a finding is run again by hand, with
// ASAN_OPTIONS that say otherwise.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=4:thread_local_quarantine_size_kb=64:malloc_context_size=1:"
         "allocator_release_to_os_interval_ms=-1";
}
