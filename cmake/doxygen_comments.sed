# Comments of the headers as Doxygen wants them: those above a declaration, and those behind one. The first ones of a
# file are the file's.
1s|^// |/// \\file\n/// |
s|^\( *\)// |\1/// |
s|^\( *\)//$|\1///|
s|\([;,{}]\)  *// |\1 ///< |
