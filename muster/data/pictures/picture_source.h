// The source "pictures" of job files: a folder of classes, or one with train/ and test/ (or val/, validation/) in it;
// or a folder and a CSV file of labels for the pictures in it.
#pragma once

#include "muster/data/open_alike.h"
#include "muster/data/sources.h"

namespace muster::data {

// Samples become SourceOptions::shape. Without a test folder SourceOptions::test_fraction of the pictures is held out.
// The augmentation random-resized-crop is done here, while decoding; the other steps are open_source's.
// Throws Error{kInvalidInput, kNotFound, kIo}, kMismatch if the two folders have different classes, and kDamaged if no
// picture can be decoded.
Data open_pictures(const SourceOptions& options);

// One picture, a folder of pictures (no targets), or a folder of the classes of the form; of pictures with labels also
// a CSV file of labels, for pictures in its folder. Rows of it that cannot be used are reported to `bad`.
Alike alike_pictures(const SourceOptions& options, const DataForm& form, const std::filesystem::path& path,
                     BadSamples& bad);

}  // namespace muster::data
