/* SPDX-License-Identifier: MIT */
/* Movies in several files, and files with positions, channels and z planes. Every frame is in its
 * place, or an error gives the number of missing frames or the required choice. */
#include "programs/fit/movie_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fit_files/sample_tiff.h"
#include "support/harness/test.h"

#ifdef FIT_WITH_TIFF

#define FOLDER TEST_SCRATCH_DIR
#define HEAD                                                                                       \
  "<?xml version='1.0'?><!-- <Pixels SizeT='9'/> --><OME "                                         \
  "xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" UUID=\"urn:uuid:own\">"

enum { PAGES = 12 };

static const movie_choice nothing = {.position = -1, .channel = -1, .z = -1};

/* Pages of one pixel with the values first, first + 1, … */
static void write_tiff(const char *path, int first, int count, const char *description) {
  uint16_t value[PAGES];
  sample_page pages[PAGES];
  for (int i = 0; i < count; i++) {
    value[i] = (uint16_t)(first + i);
    pages[i] = (sample_page){.rows = 1, .columns = 1, .pixels = &value[i], .bytes = 2};
  }
  pages[0].description = description;
  const sample_tiff tiff = {.pages = count, .page = pages, .next_of_last = -1};
  sample_tiff_write(path, &tiff);
}

static void write_text(const char *path, const void *text, size_t bytes) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, bytes, file), bytes);
  assert_int_equal(fclose(file), 0);
}

/* Reads all frames in pieces of every size. */
static void assert_frames(const char *path, const movie_choice *choice, int count,
                          const int *expected) {
  failure why = {.status = COMPUTE_OK};
  movie *file;
  if (movie_open_choice(path, choice, &file, &why)) fail_msg("%s", why.what);
  assert_int_equal(movie_information(file)->count, count);
  for (int piece = 1; piece <= count; piece++)
    for (int first = 0; first + piece <= count; first++) {
      uint16_t pixels[PAGES];
      assert_int_equal(movie_read(file, first, piece, pixels, &why), COMPUTE_OK);
      for (int i = 0; i < piece; i++) assert_int_equal(pixels[i], expected[first + i]);
    }
  movie_close(file);
}

static void assert_refused(const char *path, const movie_choice *choice, const char *part,
                           const char *remedy) {
  failure why = {.status = COMPUTE_OK};
  movie *file;
  assert_int_not_equal(movie_open_choice(path, choice, &file, &why), COMPUTE_OK);
  assert_null(file);
  if (!strstr(why.what, part)) fail_msg("\"%s\" does not say \"%s\"", why.what, part);
  if (!strstr(why.remedy, remedy)) fail_msg("\"%s\" does not say \"%s\"", why.remedy, remedy);
}

static movie_choice channel_z(int channel, int z) {
  return (movie_choice){.position = -1, .channel = channel, .z = z};
}

/* ---- OME-TIFF ------------------------------------------------------------------------------ */

static void a_set_of_ome_tiffs_is_one_movie(void **state) {
  (void)state;
  static const int all[] = {0, 1, 2, 3, 4, 5, 6, 7}, half[] = {0, 1, 2, 3, 4};
  const char *first = FOLDER "/set.ome.tif", *second = FOLDER "/set_1.ome.tif";
  const char *xml =
      HEAD "<Image ID='Image:0'><Pixels DimensionOrder='XYCZT' SizeC='1' SizeT='8' SizeZ='1'>"
           "<TiffData IFD='0' FirstT='0' PlaneCount='5'><UUID FileName='set.ome.tif'>urn:uuid:own"
           "</UUID></TiffData>"
           "<TiffData IFD='0' FirstT='5' PlaneCount='3'><UUID FileName='set_1.ome.tif'>urn:uuid:b"
           "</UUID></TiffData></Pixels></Image></OME>";
  write_tiff(first, 0, 5, xml);
  write_tiff(second, 5, 3, NULL);
  assert_frames(first, &nothing, 8, all);
  unlink(second);
  assert_refused(first, &nothing, "8 frames, of which 3 are missing; there is no set_1.ome.tif",
                 "--all-pages");
  write_tiff(second, 5, 2, NULL);
  assert_refused(first, &nothing, "of which 1 are missing", "beside it");
  assert_frames(first, &(movie_choice){true, -1, -1, -1}, 5, half);
  uint16_t wide[] = {1, 2};
  const sample_page page = {.rows = 1, .columns = 2, .pixels = wide, .bytes = 4};
  sample_tiff_write(second, &(sample_tiff){.pages = 1, .page = &page, .next_of_last = -1});
  assert_refused(first, &nothing, "set_1.ome.tif has 1 x 2 pixels", "alike");
}

static void planes_are_where_the_xml_says(void **state) {
  (void)state;
  static const int shuffled[] = {2, 0, 3, 1};
  const char *path = FOLDER "/shuffled.ome.tif";
  write_tiff(path, 0, 4,
             HEAD "<ome:Image><ome:Pixels DimensionOrder=\"XYZCT\" SizeT=\"4\">"
                  "<TiffData FirstT='1' IFD='0'/><TiffData FirstT='3' IFD='1'/>"
                  "<TiffData FirstT='0' IFD='2'/><TiffData FirstT='2' IFD='3'/>"
                  "</ome:Pixels></ome:Image></OME>");
  assert_frames(path, &nothing, 4, shuffled);
  /* The renamed file is found by its UUID, or because it is the only one. */
  static const int order[] = {0, 1, 2};
  static const char *const uuid[] = {"urn:uuid:own", "urn:uuid:lost"};
  for (int i = 0; i < 2; i++) {
    char xml[1024];
    snprintf(xml, sizeof xml,
             HEAD "<Pixels DimensionOrder='XYCZT' SizeT='3'><TiffData><UUID FileName='a&amp;b.tif'>"
                  "%s</UUID></TiffData></Pixels></OME>",
             uuid[i]);
    write_tiff(path, 0, 3, xml);
    assert_frames(path, &nothing, 3, order);
  }
}

static void names_with_numbers_continue_a_file_that_names_none(void **state) {
  (void)state;
  static const int all[] = {0, 1, 2, 3, 4, 5, 6};
  const char *path = FOLDER "/long.ome.tif";
  write_tiff(path, 0, 3,
             HEAD "<Image><Pixels DimensionOrder='XYCZT' SizeT='7'><TiffData/></Pixels></Image>"
                  "</OME>");
  write_tiff(FOLDER "/long_1.ome.tif", 3, 2, NULL);
  unlink(FOLDER "/long_2.ome.tif");
  assert_refused(path, &nothing, "7 frames, of which 2 are missing; there is no long_2.ome.tif",
                 "");
  write_tiff(FOLDER "/long_2.ome.tif", 5, 2, NULL);
  assert_frames(path, &nothing, 7, all);
}

/* Two channels, two planes and three times, in every order of dimensions. */
static void channels_and_planes_are_chosen(void **state) {
  (void)state;
  static const char *const orders[] = {"XYCZT", "XYCTZ", "XYZCT", "XYZTC", "XYTCZ", "XYTZC"};
  static const int step[][3] = {{1, 2, 4}, {1, 6, 2}, {2, 1, 4}, {6, 1, 2}, {3, 6, 1}, {6, 3, 1}};
  const char *path = FOLDER "/axes.ome.tif";
  for (int i = 0; i < 6; i++) {
    char xml[1024];
    snprintf(xml, sizeof xml,
             HEAD "<Image><Pixels DimensionOrder='%s' SizeC='2' SizeZ='2' SizeT='3'><TiffData "
                  "IFD='0' PlaneCount='12'/></Pixels></Image></OME>",
             orders[i]);
    write_tiff(path, 0, 12, xml);
    for (int channel = 0; channel < 2; channel++)
      for (int z = 0; z < 2; z++) {
        int expected[3];
        for (int t = 0; t < 3; t++)
          expected[t] = channel * step[i][0] + z * step[i][1] + t * step[i][2];
        const movie_choice choice = channel_z(channel, z);
        assert_frames(path, &choice, 3, expected);
      }
  }
  movie_choice choice = nothing;
  assert_refused(path, &choice, "has 2 channels", "--channel 0 … 1");
  choice.channel = 1;
  assert_refused(path, &choice, "has 2 planes in z", "--z-plane 0 … 1");
  choice.channel = 2;
  assert_refused(path, &choice, "number 2 was requested of 2 channels", "0 to 1");
  choice = channel_z(0, 5);
  assert_refused(path, &choice, "number 5 was requested of 2 planes", "0 to 1");
}

static void each_position_has_its_planes(void **state) {
  (void)state;
  static const int first[] = {0, 1}, second[] = {2, 3};
  const char *one = FOLDER "/both.ome.tif",
             *xml = HEAD
             "<Image><Pixels DimensionOrder='XYCZT' SizeT='2'><TiffData IFD='0' PlaneCount='2'/>"
             "</Pixels></Image><Image><Pixels DimensionOrder='XYCZT' SizeT='2'>"
             "<TiffData IFD='2' PlaneCount='2'/></Pixels></Image></OME>";
  write_tiff(one, 0, 4, xml);
  assert_refused(one, &nothing, "has 2 positions", "--stage 0 … 1");
  movie_choice choice = nothing;
  choice.position = 0;
  assert_frames(one, &choice, 2, first);
  choice.position = 1;
  assert_frames(one, &choice, 2, second);
  choice.position = 2;
  assert_refused(one, &choice, "number 2", "");
  /* Each position has its file; the opened file selects the position. */
  static const char *const name[] = {FOLDER "/Pos0.ome.tif", FOLDER "/Pos1.ome.tif"};
  for (int i = 0; i < 2; i++)
    write_tiff(name[i], 2 * i, 2,
               HEAD "<Image><Pixels DimensionOrder='XYCZT' SizeT='2'><TiffData PlaneCount='2'>"
                    "<UUID FileName='Pos0.ome.tif'/></TiffData></Pixels></Image><Image><Pixels "
                    "DimensionOrder='XYCZT' SizeT='2'><TiffData PlaneCount='2'><UUID "
                    "FileName='Pos1.ome.tif'/></TiffData></Pixels></Image></OME>");
  assert_frames(name[0], &nothing, 2, first);
  assert_frames(name[1], &nothing, 2, second);
}

static void metadata_may_be_in_a_file_of_its_own(void **state) {
  (void)state;
  static const int reversed[] = {1, 0};
  const char *path = FOLDER "/binary.ome.tif", *companion = FOLDER "/set.companion.ome";
  write_tiff(path, 0, 2,
             HEAD "<BinaryOnly MetadataFile='set.companion.ome' UUID='urn:uuid:c'/></OME>");
  unlink(companion);
  assert_refused(path, &nothing, "its metadata is in 'set.companion.ome'", "");
  const char *xml = HEAD "<Pixels DimensionOrder='XYCZT' SizeT='2'>"
                         "<TiffData FirstT='1' IFD='0'><UUID FileName='binary.ome.tif'/></TiffData>"
                         "<TiffData FirstT='0' IFD='1'><UUID FileName='binary.ome.tif'/></TiffData>"
                         "</Pixels></OME>";
  write_text(companion, xml, strlen(xml));
  assert_frames(path, &nothing, 2, reversed);
}

/* Each TiffData run is the whole file. Without a limit, the planes would need memory for the
 * product of both. */
static void no_text_takes_more_planes_than_pages(void **state) {
  (void)state;
  const char *path = FOLDER "/repeated.ome.tif";
  write_tiff(path, 0, 4,
             HEAD "<Pixels DimensionOrder='XYCZT' SizeT='4'><TiffData/><TiffData/></Pixels></OME>");
  assert_refused(path, &nothing, "names pages more than once", "--all-pages");
}

static void no_page_is_lost(void **state) {
  (void)state;
  static const char *const runs[] = {
      "<TiffData/>", "", "<TiffData IFD='0' PlaneCount='2'/>",
      ("<TiffData IFD='0' PlaneCount='2'/>" /* parentheses: clang would warn of a lost comma */
       "<TiffData IFD='2' FirstT='2' PlaneCount='2'/>")};
  static const int all[] = {0, 1, 2, 3};
  const char *path = FOLDER "/more.ome.tif";
  for (int i = 0; i < 4; i++) {
    char xml[1024];
    snprintf(xml, sizeof xml, HEAD "<Pixels DimensionOrder='XYCZT' SizeT='2'>%s</Pixels></OME>",
             runs[i]);
    write_tiff(path, 0, 4, xml);
    assert_refused(path, &nothing, "more.ome.tif has 4 pages, its OME-XML announces 2",
                   "--all-pages");
    assert_frames(path, &(movie_choice){true, -1, -1, -1}, 4, all);
  }
  write_tiff(path, 0, 2,
             HEAD "<Pixels DimensionOrder='XYCZT' SizeT='3'><TiffData PlaneCount='2'><UUID "
                  "FileName='more.ome.tif'/></TiffData><TiffData FirstT='2' PlaneCount='2'><UUID "
                  "FileName='rest.ome.tif'/></TiffData></Pixels></OME>");
  write_tiff(FOLDER "/rest.ome.tif", 2, 2, NULL);
  assert_refused(path, &nothing, "the set of ", "--all-pages");
}

static void sizes_beyond_sense_are_refused(void **state) {
  (void)state;
  static const char *const sizes[] = {"SizeT='0'", "SizeC='-1'",
                                      "SizeT='3000000000' SizeC='3000000000' SizeZ='3000000000'"};
  for (int i = 0; i < 3; i++) {
    char xml[1024];
    snprintf(xml, sizeof xml, HEAD "<Pixels DimensionOrder='XYCZT' %s><TiffData/></Pixels></OME>",
             sizes[i]);
    write_tiff(FOLDER "/bad.ome.tif", 0, 2, xml);
    assert_refused(FOLDER "/bad.ome.tif", &nothing, "not possible", "--all-pages");
  }
  /* Runs beyond the file and the sizes count as missing. */
  write_tiff(FOLDER "/bad.ome.tif", 0, 2,
             HEAD "<Pixels DimensionOrder='XYCZT' SizeT='2'><TiffData IFD='-3' PlaneCount='9'/>"
                  "<TiffData IFD='1' FirstT='7'/><TiffData IFD='1' FirstT='1' PlaneCount='99'/>"
                  "</Pixels></OME>");
  assert_refused(FOLDER "/bad.ome.tif", &nothing, "2 frames, of which 1 are missing", "");
}

/* ---- Others -------------------------------------------------------------------------------- */

static void assert_says(const char *path, const char *part) {
  failure why = {.status = COMPUTE_OK};
  movie *file;
  if (movie_open(path, &file, &why)) fail_msg("%s", why.what);
  assert_non_null(strstr(movie_information(file)->stored, part));
  movie_close(file);
}

static void hyperstacks_of_imagej(void **state) {
  (void)state;
  static const int all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, last[] = {3, 7, 11};
  const char *path = FOLDER "/imagej.tif";
  write_tiff(path, 0, 12, "ImageJ=1.54f\nimages=12\nchannels=2\nslices=2\nframes=3\n");
  assert_refused(path, &nothing, "has 2 channels", "--channel");
  const movie_choice choice = channel_z(1, 1);
  assert_frames(path, &choice, 3, last);
  assert_frames(path, &(movie_choice){true, -1, -1, -1}, 12, all);
  write_tiff(path, 0, 12, "ImageJ=1.54f\nimages=12\nslices=12\nloop=false\n");
  assert_frames(path, &nothing, 12, all);
  assert_says(path, "planes in z as frames");
  write_tiff(path, 0, 12, "ImageJ=1.54f\nimages=12\nchannels=12\nloop=false\n");
  assert_frames(path, &nothing, 12, all);
  assert_says(path, "channels as frames");
  write_tiff(path, 0, 12, "ImageJ=1.54f\nimages=6\nframes=6\n"); /* frames were appended later */
  assert_frames(path, &nothing, 12, all);
  write_tiff(path, 0, 12, "ImageJ=1.54f\nimages=40\nframes=40\n");
  assert_refused(path, &nothing, "40 frames, of which 28 are missing", "--all-pages");
}

/* In these files, the pixels begin where Micro-Manager has its header. */
static void write_micro_manager(const char *path, int first, int count, const char *summary) {
  const uint32_t words[] = {54773648, 0, 0, 0, 0, 0, 2355492, (uint32_t)strlen(summary)};
  unsigned char pixels[PAGES][256] = {{0}};
  sample_page pages[PAGES];
  memcpy(pixels[0], words, sizeof words);
  memcpy(pixels[0] + sizeof words, summary, strlen(summary));
  for (int i = 0; i < count; i++) {
    pixels[i][254] = (unsigned char)(first + i);
    pages[i] = (sample_page){.rows = 1, .columns = 128, .pixels = pixels[i], .bytes = 256};
  }
  const sample_tiff tiff = {.pages = count, .page = pages, .next_of_last = -1};
  sample_tiff_write(path, &tiff);
}

static void assert_micro_manager(const char *path, int count) {
  failure why = {.status = COMPUTE_OK};
  movie *file;
  uint16_t pixels[PAGES][128];
  if (movie_open(path, &file, &why)) fail_msg("%s", why.what);
  assert_int_equal(movie_information(file)->count, count);
  assert_int_equal(movie_read(file, 0, count, pixels, &why), COMPUTE_OK);
  for (int i = 0; i < count; i++) assert_int_equal(pixels[i][127], i);
  movie_close(file);
}

static void stacks_of_micro_manager_follow_their_numbers(void **state) {
  (void)state;
  const char *path = FOLDER "/mm_MMStack.tif", *second = FOLDER "/mm_MMStack_1.tif";
  const char *summary = "{\"Frames\": 7, \"Channels\": 1, \"Slices\": 1}";
  write_micro_manager(path, 0, 4, summary);
  write_micro_manager(second, 4, 3, summary);
  assert_micro_manager(path, 7);
  write_micro_manager(path, 0, 7, summary); /* complete: the other file is unrelated */
  assert_micro_manager(path, 7);
  write_micro_manager(path, 0, 4, "no JSON"); /* nothing is announced */
  assert_micro_manager(path, 7);
  write_micro_manager(path, 0, 4, summary);
  unlink(second);
  assert_refused(path, &nothing, "7 frames, of which 3 are missing", "");
  write_micro_manager(path, 0, 4, "{\"Frames\": 2, \"Channels\": 2, \"Slices\": 1}");
  assert_refused(path, &nothing, "2 channels", "--all-pages");
}

static size_t put_entry(unsigned char *to, const char *axes, const char *name) {
  const char *const texts[] = {axes, name};
  size_t used = 0;
  for (int i = 0; i < 2; i++) {
    const uint32_t length = (uint32_t)strlen(texts[i]);
    memcpy(to + used, &length, 4);
    memcpy(to + used + 4, texts[i], length);
    used += 4 + length;
  }
  memset(to + used, 0, 32);
  return used + 32;
}

static void ndtiff_has_an_index(void **state) {
  (void)state;
  static const int red[] = {0, 2, 5}, green[] = {1, 4, 3};
  const char *path = FOLDER "/NDTiffStack.tif", *second = FOLDER "/NDTiffStack_1.tif";
  static const char *const entry[][2] = {
      {"{\"time\": 0, \"channel\": \"red\"}", "NDTiffStack.tif"},
      {"{\"time\": 0, \"channel\": \"green\"}", "NDTiffStack.tif"},
      {"{\"time\": 1, \"channel\": \"red\"}", "NDTiffStack.tif"},
      {"{\"time\": 2, \"channel\": \"green\"}", "NDTiffStack_1.tif"},
      {"{\"time\": 1, \"channel\": \"green\"}", "NDTiffStack_1.tif"},
      {"{\"time\": 2, \"channel\": \"red\"}", "NDTiffStack_1.tif"}};
  unsigned char index[1024];
  size_t used = 0;
  for (size_t i = 0; i < 6; i++) used += put_entry(index + used, entry[i][0], entry[i][1]);
  write_text(FOLDER "/NDTiff.index", index, used);
  write_tiff(path, 0, 3, NULL);
  write_tiff(second, 3, 3, NULL);
  assert_refused(path, &nothing, "has 2 channels", "--channel 0 … 1");
  movie_choice choice = channel_z(0, -1);
  assert_frames(path, &choice, 3, red);
  choice.channel = 1;
  assert_frames(path, &choice, 3, green);
  unlink(second);
  assert_refused(path, &choice, "3 frames, of which 2 are missing; there is no NDTiffStack_1.tif",
                 "");
  for (size_t cut = 1; cut < used; cut += 7) { /* no truncation is misread */
    write_text(FOLDER "/NDTiff.index", index, cut);
    failure why = {.status = COMPUTE_OK};
    movie *file;
    (void)movie_open(path, &file, &why);
    movie_close(file);
  }
  unlink(FOLDER "/NDTiff.index");
}

static void axes_of_ndtiff_that_no_movie_has(void **state) {
  (void)state;
  static const int all[] = {0, 1, 2, 3};
  static const struct {
    const char *axes[4], *refused;
  } index[] = {{{"{\"time\": 0, \"row\": 5}", "{\"time\": 1, \"row\": 5}",
                 "{\"time\": 2, \"row\": 5}", "{\"time\": 3}"},
                NULL},
               {{"{\"time\": 0, \"row\": 0}", "{\"time\": 1, \"row\": 0}",
                 "{\"time\": 0, \"row\": 1}", "{\"time\": 1, \"row\": 1}"},
                "has an axis 'row'"},
               {{"{\"time\": 0}", "{\"time\": 1}", "{\"time\": 2}", "{\"time\": 1}"},
                "has two pages for frame 1"}};
  const char *path = FOLDER "/axes.tif";
  write_tiff(path, 0, 4, NULL);
  for (int i = 0; i < 3; i++) {
    unsigned char bytes[1024];
    size_t used = 0;
    for (int k = 0; k < 4; k++) used += put_entry(bytes + used, index[i].axes[k], "axes.tif");
    write_text(FOLDER "/NDTiff.index", bytes, used);
    if (index[i].refused)
      assert_refused(path, &nothing, index[i].refused, "--all-pages");
    else
      assert_frames(path, &nothing, 4, all);
    assert_frames(path, &(movie_choice){true, -1, -1, -1}, 4, all);
  }
  unlink(FOLDER "/NDTiff.index");
}

/* Reading is linear in the size of the text; otherwise this test takes minutes. */
static void many_names_are_quickly_read(void **state) {
  (void)state;
  enum { NAMES = 100000, EACH = 96 };
  const char *path = FOLDER "/many.tif";
  char *text = malloc((size_t)NAMES * EACH);
  assert_non_null(text);
  size_t used = (size_t)sprintf(text, HEAD "<Pixels SizeT='%d'><TiffData PlaneCount='1'/>", NAMES);
  for (int i = 1; i < NAMES; i++)
    used += (size_t)sprintf(text + used,
                            "<TiffData FirstT='%d' PlaneCount='1'><UUID FileName='%d.tif'/>"
                            "</TiffData>",
                            i, i);
  write_tiff(path, 0, 1, text);
  assert_refused(path, &nothing, "of which 99999 are missing", "");
  write_tiff(path, 0, 1, NULL);
  used = put_entry((unsigned char *)text, "{\"time\": 0}", "many.tif");
  for (int i = 1; i < NAMES; i++) {
    char axes[32], name[32];
    snprintf(axes, sizeof axes, "{\"time\": %d}", i);
    snprintf(name, sizeof name, "%d.tif", i);
    used += put_entry((unsigned char *)text + used, axes, name);
  }
  write_text(FOLDER "/NDTiff.index", text, used);
  assert_refused(path, &nothing, "of which 99999 are missing", "");
  unlink(FOLDER "/NDTiff.index");
  free(text);
}

static void white_may_be_zero(void **state) {
  (void)state;
  const uint16_t u16[] = {0, 1000, 65535};
  const uint8_t u8[] = {0, 100, 255};
  const float f32[] = {0, 1, 2};
  static const int expected[][3] = {{255, 155, 0}, {65535, 64535, 0}};
  const char *path = FOLDER "/white.tif";
  for (int i = 0; i < 3; i++) {
    const void *const pixels[] = {u8, u16, f32};
    sample_page page = {.rows = 1,
                        .columns = 3,
                        .bits = (uint16_t)(8 << i),
                        .format = i == 2 ? 3 : 1,
                        .white_is_0 = true,
                        .pixels = pixels[i],
                        .bytes = 3u << i};
    sample_tiff_write(path, &(sample_tiff){.pages = 1, .page = &page, .next_of_last = -1});
    if (i == 2) {
      assert_refused(path, &nothing, "floats of which 0 is white", "");
      break;
    }
    failure why = {.status = COMPUTE_OK};
    movie *file;
    uint16_t read[3];
    if (movie_open(path, &file, &why)) fail_msg("%s", why.what);
    assert_non_null(strstr(movie_information(file)->stored, "0 is white"));
    assert_int_equal(movie_read(file, 0, 1, read, &why), COMPUTE_OK);
    for (int k = 0; k < 3; k++) assert_int_equal(read[k], expected[i][k]);
    movie_close(file);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_set_of_ome_tiffs_is_one_movie),
      cmocka_unit_test(planes_are_where_the_xml_says),
      cmocka_unit_test(names_with_numbers_continue_a_file_that_names_none),
      cmocka_unit_test(channels_and_planes_are_chosen),
      cmocka_unit_test(each_position_has_its_planes),
      cmocka_unit_test(metadata_may_be_in_a_file_of_its_own),
      cmocka_unit_test(no_text_takes_more_planes_than_pages),
      cmocka_unit_test(no_page_is_lost),
      cmocka_unit_test(sizes_beyond_sense_are_refused),
      cmocka_unit_test(hyperstacks_of_imagej),
      cmocka_unit_test(stacks_of_micro_manager_follow_their_numbers),
      cmocka_unit_test(ndtiff_has_an_index),
      cmocka_unit_test(axes_of_ndtiff_that_no_movie_has),
      cmocka_unit_test(many_names_are_quickly_read),
      cmocka_unit_test(white_may_be_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include <stdio.h>

int main(void) {
  puts("skipped: compute-fit was built without libtiff (Debian: libtiff-dev)");
  return 77;
}

#endif
