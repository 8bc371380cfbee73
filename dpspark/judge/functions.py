"""The functions of one row: Spark's own classes for them, as they stand in a plan.

A name in a query can be quoted, shadowed or aliased; a class cannot. What is not listed here is not known to be a function of
one row's values alone, with the same answer every time. Nothing may be added that draws at random, asks for the time, looks at
another row, at the file or at the session, or fails on a value on purpose.
"""

from __future__ import annotations

PARTS = """
    Alias AttributeReference Literal Cast TryEval  LambdaFunction NamedLambdaVariable
    GetStructField GetArrayItem GetMapValue GetArrayStructFields CreateArray CreateMap CreateNamedStruct
    KnownNotNull KnownFloatingPointNormalized AssertNotNull UpCast CheckOverflow
    SortOrder UpdateFields WithField DropField With CommonExpressionDef CommonExpressionRef NullIfResult TypedNullLiteral
"""
LOGIC = """
    Not LessThan LessThanOrEqual EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual And Or EqualNull In InSet Between
    IsNaN IsNotNull IsNull AtLeastNNonNulls Like ILike RLike LikeAll NotLikeAll LikeAny NotLikeAny StartsWith EndsWith Contains
    Coalesce If Nvl NaNvl NullIf NullIfZero Nvl2 CaseWhen ZeroIfNull
"""
ARITHMETIC = """
    Remainder Multiply Add Subtract Divide Abs Acos Acosh Asin Asinh Atan Atan2 Atanh Bin BRound Cbrt Ceil RoundCeil Conv Cos
    Cosh Cot Csc ToDegrees IntegralDivide EulerNumber Exp Expm1 Factorial Floor RoundFloor Greatest Hex Hypot Least Log
    Logarithm Log10 Log1p Log2 UnaryMinus Pi Pmod UnaryPositive Pow ToRadians Rint Round Sec Signum Sin Sinh Sqrt Tan Tanh
    TryAdd TryDivide TryMod TryMultiply TrySubtract Unhex WidthBucket DecimalAddNoOverflowCheck DecimalDivideWithOverflowCheck
    MakeDecimal UnscaledValue BitwiseAnd ShiftLeft ShiftRight ShiftRightUnsigned BitwiseXor BitwiseCount BitwiseGet BitwiseOr
    BitwiseNot
"""
TIMES = """
    AddMonths ConvertTimezone DateAdd DateAddInterval DateAddYMInterval DateDiff DateFormatClass DateFromUnixDate DatePart
    DateSub TruncTimestamp TruncDate TruncInstant DayOfMonth DayName DayOfWeek DayOfYear Extract FromUnixTime FromUTCTimestamp
    Hour LastDay MakeDate MakeDTInterval MakeInterval MakeTimestamp MakeTimestampNTZ MakeTimestampLTZ MakeYMInterval Minute
    Month MonthName MonthsBetween NextDay Quarter Second SecondWithFraction MicrosToTimestamp MillisToTimestamp
    SecondsToTimestamp ParseToDate ParseToTimestamp GetTimestamp ToUnixTimestamp ToUTCTimestamp UnixDate UnixMicros
    UnixMillis UnixSeconds UnixTimestamp WeekDay WeekOfYear Year YearOfWeek TimeAdd TimestampAdd TimestampDiff
    TimestampAddInterval TimestampAddYMInterval SubtractDates SubtractTimestamps ExtractIntervalYears ExtractIntervalMonths
    ExtractIntervalDays ExtractIntervalHours ExtractIntervalMinutes ExtractIntervalSeconds ExtractANSIIntervalYears
    ExtractANSIIntervalMonths ExtractANSIIntervalDays ExtractANSIIntervalHours ExtractANSIIntervalMinutes
    ExtractANSIIntervalSeconds MultiplyInterval DivideInterval MultiplyYMInterval MultiplyDTInterval DivideYMInterval
    DivideDTInterval
"""
TEXTS = """
    Ascii Base64 BitLength StringTrimBoth Length Chr ConcatWs Concat Decode StringDecode Elt Encode FindInSet FormatNumber
    FormatString InitCap StringInstr Lower Left Levenshtein StringLocate StringLPad StringTrimLeft Luhncheck Mask
    OctetLength Overlay RegExpCount RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace RegExpSubStr StringRepeat
    StringReplace Right StringRPad StringTrimRight SoundEx StringSpace StringSplit SplitPart Substring SubstringIndex
    StringTranslate StringTrim UnBase64 Upper ToCharacter ToNumber TryToNumber Crc32 Murmur3Hash Md5 Sha1 Sha2 XxHash64
    Size ArraySize ElementAt TryElementAt Get Reverse TypeOf GetJsonObject JsonToStructs StructsToJson CsvToStructs ParseUrl
    TryParseUrl UrlDecode TryUrlDecode UrlEncode
"""
COLLECTIONS = """
    ArrayAppend ArrayCompact ArrayContains ArrayDistinct ArrayExcept ArrayInsert ArrayIntersect ArrayJoin ArrayMax ArrayMin
    ArrayPosition ArrayPrepend ArrayRemove ArrayRepeat ArrayUnion ArraysOverlap ArraysZip Flatten Sequence Slice SortArray
    ArrayAggregate ArraySort ArrayExists ArrayFilter ArrayForAll MapFilter MapZipWith ArrayTransform TransformKeys
    TransformValues ZipWith MapConcat MapContainsKey MapEntries MapFromArrays MapFromEntries MapKeys MapValues StringToMap
"""
OF_ONE_ROW = frozenset(f"{PARTS}{LOGIC}{ARITHMETIC}{TIMES}{TEXTS}{COLLECTIONS}".split())

# Classes that stand for some of these once their arguments are known; they call a method that is named in the plan.
CALLS = frozenset({"StaticInvoke", "Invoke"})
# Spark pads what it reads of a char(n) column.
PADDING = ("org.apache.spark.sql.catalyst.util.CharVarcharCodegenUtils", "readSidePadding")
OURS_TO_CALL = ("org.apache.spark.sql.catalyst.", "org.apache.spark.unsafe.")

# Another answer at every run, or for every order of the rows: refused whatever the operator states.
UNSTABLE = {
    **dict.fromkeys(("Rand", "Randn", "Uniform", "RandStr", "Uuid", "Shuffle"), "a random function"),
    **dict.fromkeys(("MonotonicallyIncreasingID", "SparkPartitionID"), "a number of a row or a partition"),
    **dict.fromkeys(("InputFileName", "InputFileBlockStart", "InputFileBlockLength"), "the place of a row in its file"),
    **dict.fromkeys(("CurrentDate", "CurrentTimestamp", "CurrentTime", "Now", "LocalTimestamp"), "the time of the run"),
    "CurrentBatchTimestamp": "the time of the run",
    **dict.fromkeys(("CallMethodViaReflection", "TryReflect"), "a call of Java"),
}
# Functions that make a date or a time of a text themselves; others cast it, and the cast is in the plan.
PARSERS = frozenset({"ParseToDate", "ParseToTimestamp", "GetTimestamp", "ToUnixTimestamp", "UnixTimestamp"})
